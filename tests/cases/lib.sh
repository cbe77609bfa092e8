# Functions for the build.sh of each case. The harness runs `sh -eu` with this file
# first, and sets OUT (the directory to fill), WORK (a scratch directory) and CC.
#
#   library PATH [option value]…   a shared object without needed strings of its own
#   program PATH [option value]…   a program whose last needed string is the C library
#       -s SONAME   -n NEEDED   -R RUNPATH   -r RPATH   -l LINKER-ARGUMENT   -S SOURCE
#   foreign_library PATH 32        an i386 shared object
#   machine PATH NUMBER            sets e_machine in the ELF header
#   patch_byte PATH OFFSET '\ooo'  sets one byte of a file
#   root_file_system               copies this machine's loader and C library to OUT
#
# Paths are relative to OUT. A needed string stays as given: the object is linked with a
# stub of that soname, so no file of that name has to exist.

stubs=0

stub() {
    stubs=$((stubs + 1))
    stub=$WORK/stub$stubs.so
    $CC -shared -nostdlib -Xlinker -soname -Xlinker "$1" -o "$stub" -x c /dev/null
}

link_object() {
    output=$OUT/$1
    source=$2
    shift 2
    mkdir -p "$(dirname "$output")"
    left=$#
    while [ "$left" -gt 0 ]; do
        option=$1 value=$2
        shift 2
        left=$((left - 2))
        case $option in
        -s) set -- "$@" -Xlinker -soname -Xlinker "$value" ;;
        -n) stub "$value"; set -- "$@" "$stub" ;;
        -R) set -- "$@" -Xlinker --enable-new-dtags -Xlinker -rpath -Xlinker "$value" ;;
        -r) set -- "$@" -Xlinker --disable-new-dtags -Xlinker -rpath -Xlinker "$value" ;;
        -l) set -- "$@" -Xlinker "$value" ;;
        -S) source=$value ;;
        -f) set -- "$@" "$value" ;;
        *) echo "unknown option $option" >&2; return 1 ;;
        esac
    done
    $CC -w -Xlinker --no-as-needed -Xlinker --unresolved-symbols=ignore-all \
        -o "$output" -x c "$source" -x none "$@"
}

library() {
    path=$1
    shift
    link_object "$path" /dev/null "$@" -f -shared -f -nostdlib -f -fPIC
}

program() {
    path=$1
    shift
    echo 'int main(void) { return 0; }' > "$WORK/program.c"
    link_object "$path" "$WORK/program.c" "$@"
}

foreign_library() {
    mkdir -p "$(dirname "$OUT/$1")"
    as "--$2" -o "$WORK/foreign.o" /dev/null
    ld -m elf_i386 -shared -soname "$(basename "$1")" -o "$OUT/$1" "$WORK/foreign.o"
}

patch_byte() {
    printf "$3" | dd of="$OUT/$1" bs=1 seek="$2" conv=notrunc status=none
}

machine() {
    patch_byte "$1" 18 "\\$(printf '%03o' $(($2 % 256)))"
    patch_byte "$1" 19 "\\$(printf '%03o' $(($2 / 256)))"
}

root_file_system() {
    for file in $(ldd /bin/true | tr ' \t' '\n\n' | grep '^/'); do
        mkdir -p "$OUT/$(dirname "$file")"
        cp -L "$file" "$OUT/$file"
    done
}
