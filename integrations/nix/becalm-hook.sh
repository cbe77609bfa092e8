# A setup hook for nixpkgs: calms each output of a package in its fixup phase.
#
#   nativeBuildInputs = [ becalm ];        # this file is its nix-support/setup-hook
#   becalmCarrier = "farm";                # farm (default), audit, absolute, note or ldcache
#   becalmFlags = [ "--no-sync" ];         # further flags of becalm fix
#   becalmMaxMisses = 100;                 # a budget for each program; none by default
#   dontBecalm = true;                     # leaves the package alone
#
# Only files of the output are changed: what it depends on is finished and may belong to another
# user. Leave out --closure. Nothing of the package is run, so that cross builds are calmed as well. The outputs of a build
# lie where they will be, so no --prefix-map is needed.

becalmFixOutput() {
  [ -z "${dontBecalm:-}" ] && [ -d "$prefix" ] || return 0
  local store=${NIX_STORE:-/nix/store} flags budget
  # A list comes as an array with structured attributes, as words without.
  if [[ "$(declare -p becalmFlags 2>/dev/null)" == "declare -a"* ]]; then
    flags=("${becalmFlags[@]}")
  else
    read -ra flags <<<"${becalmFlags:-}"
  fi
  echo "calming $prefix"
  becalm fix --with "${becalmCarrier:-farm}" --store "$store" "${flags[@]}" "$prefix" ||
    # 1: something is left to the plain search, which is no reason to fail.
    [ $? -eq 1 ]
  budget=${becalmMaxMisses:-}
  if [ -n "$budget" ] && [ -d "$prefix/bin" ]; then
    becalm check --max-misses "$budget" --library-path '' "$prefix/bin"
  fi
}

fixupOutputHooks+=(becalmFixOutput)
