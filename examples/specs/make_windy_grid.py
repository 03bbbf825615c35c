"""Write windy_grid.npz, the arrays of windy_grid.toml: the paper's grid, with and without wind.

python examples/specs/make_windy_grid.py
"""

from pathlib import Path

import numpy as np

from experiments.studies.certified_runs import corner_walk
from safe2real.systems import WindyGrid


def main() -> None:
    grid = WindyGrid.paper()
    np.savez_compressed(
        Path(__file__).with_name("windy_grid.npz"),
        simulator=grid.simulator().to_dense(),  # [S, A, S]
        real=grid.real().to_dense(),
        neighbours=grid.neighbours().to_dense(),  # where an action can lead at all
        corner_walk=corner_walk(grid).probabilities[0],  # [S, A]
    )


if __name__ == "__main__":
    main()
