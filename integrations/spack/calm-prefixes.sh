#!/bin/sh
# Calms installed prefixes, one a line on standard input:
#
#   spack find --format '{prefix}' | calm-prefixes.sh "$(spack location -r)/opt/spack" [FLAG…]
#
# The first argument is the tree that Spack installs into; further ones are flags of becalm fix,
# --with farm without any. Only files of the prefix at hand are changed. A plan that makes a
# program search longer is not carried out: with DT_RPATH, Spack's default, that is often so for
# a farm.
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
