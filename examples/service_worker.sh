#!/bin/sh
# A worker of a fleet with curl and jq alone: ask, run, tell. The token is read from a file, so that no list of processes
# shows it:   printf 'header = "Authorization: Bearer %s"\n' "$TOKEN" > token.curl && chmod 600 token.curl
#   sh examples/service_worker.sh http://127.0.0.1:8080/api/v1/campaigns/arm token.curl [EPISODES]
set -eu
address=$1 token=$2 left=${3:-1000000}

# Lost answers are asked for again: neither ask nor tell is ever recorded twice.
post() { curl --config "$token" --silent --show-error --retry 10 --retry-all-errors --retry-connrefused --max-time 60 \
              --header 'Content-Type: application/json' --data "$2" "$address$1"; }

# One episode on the machine: put yours here. This one stays in state 0 for as long as the policy is long.
run() { jq -c '.policy.actions | {states: [0, (.[] | 0)], actions: map(.[0])}'; }

while [ "$left" -gt 0 ]; do
  answer=$(post /ask '{}')
  case $(printf %s "$answer" | jq -r '.kind // "asked"') in
    asked) ;;
    stopped) echo 'the model is accurate enough: nothing is left to run'; exit 0 ;;
    halted) printf %s "$answer" | jq -r '"STOP THE MACHINE: " + .detail'; exit 8 ;;
    *) printf %s "$answer" | jq -r .detail >&2; exit 1 ;;
  esac
  deployment=$(printf %s "$answer" | jq -c '.deployments[0]')
  id=$(printf %s "$deployment" | jq -r .id)
  post "/deployments/$id/tell" "$(printf %s "$deployment" | run)" | jq -r '"\(.id) " + if .new then "recorded" else "again" end'
  left=$((left - 1))
done
