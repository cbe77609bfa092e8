# Copy this file into $CONDA_PREFIX/etc/conda/activate.d. Programs of the environment then start with
# an index. The first activation makes the index; each further one brings it up to date.
_becalm_index="$CONDA_PREFIX/var/becalm/index.so"
if command -v becalm >/dev/null; then
  mkdir -p "${_becalm_index%/*}"
  if [ -e "$_becalm_index" ]; then
    becalm index --update -o "$_becalm_index" >/dev/null
  else
    becalm index --store "$CONDA_PREFIX" "$CONDA_PREFIX" -o "$_becalm_index" >/dev/null
  fi
  if [ -e "$_becalm_index" ]; then
    eval "$(becalm env --index "$_becalm_index")"
  fi
fi
unset _becalm_index
