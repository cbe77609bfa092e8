#!/bin/sh
# A package's CI: fails where a program of the package searches for too long, or where what
# becalm wrote is no longer true.
#
#   storm-budget.sh MISSES STORE PREFIX
set -eu
misses=$1 store=$2 prefix=$3
becalm check --max-misses "$misses" --library-path '' --store "$store" "$prefix/bin"
becalm verify --store "$store" "$prefix"
