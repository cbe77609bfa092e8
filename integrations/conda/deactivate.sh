# Copy this file into $CONDA_PREFIX/etc/conda/deactivate.d. It restores the variables that activate.sh set.
if command -v becalm >/dev/null && [ -e "$CONDA_PREFIX/var/becalm/index.so" ]; then
  eval "$(becalm env --undo --index "$CONDA_PREFIX/var/becalm/index.so")"
fi
