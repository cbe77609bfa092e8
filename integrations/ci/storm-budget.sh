#!/bin/sh
# For a package's CI. Fails if a program of the package has more than MISSES misses, or if an answer
# that becalm wrote is no longer right.
#
#   storm-budget.sh MISSES STORE PREFIX
set -eu
misses=$1 store=$2 prefix=$3
becalm check --max-misses "$misses" --library-path '' --store "$store" "$prefix/bin"
becalm verify --store "$store" "$prefix"
