# A setup hook for nixpkgs. It runs `becalm fix` on each output of a package in the fixup phase.
#
#   nativeBuildInputs = [ becalm ];        # this file is its nix-support/setup-hook
#   becalmStrategy = "farm";               # farm (default), audit, absolute, note or ldcache
#   becalmFlags = [ "--no-sync" ];         # further flags of becalm fix
#   becalmMaxMisses = 100;                 # the most misses of each program; no limit by default
#   dontBecalm = true;                     # skip this package
#
# The hook changes only files of the output. The package's dependencies are finished and may belong to
# another user, so do not use --closure. The hook runs nothing of the package, so it works in cross
# builds. An output is built at its final path, so --prefix-map is not needed.

becalmFixOutput() {
  [ -z "${dontBecalm:-}" ] && [ -d "$prefix" ] || return 0
  local store=${NIX_STORE:-/nix/store} flags budget
  # stdenv passes a list as an array if the package has structured attributes, else as words.
  if [[ "$(declare -p becalmFlags 2>/dev/null)" == "declare -a"* ]]; then
    flags=("${becalmFlags[@]}")
  else
    read -ra flags <<<"${becalmFlags:-}"
  fi
  echo "becalm fix: $prefix"
  # becalmCarrier is the former name of becalmStrategy.
  becalm fix --with "${becalmStrategy:-${becalmCarrier:-farm}}" --store "$store" "${flags[@]}" "$prefix" ||
    # Exit code 1: the loader still searches for some needed strings. That does not fail the build.
    [ $? -eq 1 ]
  budget=${becalmMaxMisses:-}
  if [ -n "$budget" ] && [ -d "$prefix/bin" ]; then
    becalm check --max-misses "$budget" --library-path '' "$prefix/bin"
  fi
}

fixupOutputHooks+=(becalmFixOutput)
