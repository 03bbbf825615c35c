"""Every table and figure of the paper, regenerated from scratch."""
