#!/bin/sh
# Runs `becalm fix` on installed prefixes. Standard input has one prefix per line:
#
#   spack find --format '{prefix}' | calm-prefixes.sh "$(spack location -r)/opt/spack" [FLAG…]
#
# The first argument is the tree that Spack installs into. Further arguments are flags of becalm fix;
# the default is --with farm. Each run changes only files of its prefix. becalm fix does not carry out a
# plan that makes a program search longer. With DT_RPATH, Spack's default, farms often do.
set -eu
store=$1
shift
[ $# -gt 0 ] || set -- --with farm
status=0
while IFS= read -r prefix; do
  [ -d "$prefix" ] || continue
  becalm fix "$@" --store "$store" "$prefix" || {
    # Exit code 1: the loader still searches for some needed strings.
    [ $? -eq 1 ] || status=2
  }
done
exit "$status"
