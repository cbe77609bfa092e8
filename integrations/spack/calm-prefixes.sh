#!/bin/sh
# Calms installed prefixes, one a line on standard input:
#
#   spack find --format '{prefix}' | calm-prefixes.sh "$(spack location -r)/opt/spack" [FLAG…]
#
# The first argument is the tree that Spack installs into; further ones are flags of becalm fix,
# --with farm without any.
set -eu
store=$1
shift
[ $# -gt 0 ] || set -- --with farm
status=0
while IFS= read -r prefix; do
  [ -d "$prefix" ] || continue
  becalm fix "$@" --store "$store" "$prefix" || {
    # 1: something is left to the plain search.
    [ $? -eq 1 ] || status=2
  }
done
exit "$status"
