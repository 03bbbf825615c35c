#!/bin/sh
# A restore drill for a fleet on PostgreSQL: copy its database, restore the copy into an empty one, and check that every
# campaign in it holds and still has the event whose digest was noted before the copy.
#
#   sh service_drill.sh postgresql://user@host/fleet postgresql://user@elsewhere/drill heads.txt
#
# heads.txt has a line "NAME HEAD" for each campaign; HEAD is `head` of its status. The exit code is 0 only if all hold.
set -eu
from=$1 to=$2 heads=$3
copy=$(mktemp)
trap 'rm -f "$copy"' EXIT
pg_dump --format=custom --file "$copy" "$from"
pg_restore --exit-on-error --no-owner --dbname "$to" "$copy"
while read -r name head; do
  # A campaign is the schema of its name.
  ${SAFE2REAL:-safe2real} campaign verify "$to?options=-csearch_path%3D%22$name%22" --head "$head" > /dev/null
  echo "$name holds"
done < "$heads"
