#!/usr/bin/env bash
# Builds a static binary, which needs no file of the system that it runs on, and prints its path.
#
#   ./deploy/image/binary.sh [--arch amd64|arm64] [--profile NAME]
#
# The architecture defaults to that of this machine, the profile of Cargo to `release`. The C library is
# musl: its resolver never loads a library. A static glibc loads those that the nsswitch.conf of the host
# names, and they must be of the same version. For another architecture than this machine's, the cross
# compiler of Debian is required. deploy/docs/image.md has figures.
#
# With STATIC_BINARIES=DIR in the environment, prints DIR/ARCH/deltaproxy instead, which was built before.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/image/debian.sh
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin

arch=
profile=release
while (($# > 0)); do
    case $1 in
        --arch) arch=${2:?} ;;
        --profile) profile=${2:?} ;;
        *) sed -n '4s/^# *//p' "${BASH_SOURCE[0]}" >&2; exit 64 ;;
    esac
    shift 2
done
if [[ -z $arch ]]; then
    case $(uname -m) in
        x86_64) arch=amd64 ;;
        aarch64) arch=arm64 ;;
        *) fail "binary.sh: cannot build on $(uname -m) without --arch" ;;
    esac
fi
machine=$(machine_of "$arch")
if [[ -n ${STATIC_BINARIES-} ]]; then
    binary=$STATIC_BINARIES/$arch/deltaproxy
    [[ -x $binary ]] || fail "binary.sh: STATIC_BINARIES: cannot find the program \`$binary\`"
    echo "$binary"
    exit
fi
target=$machine-unknown-linux-musl
compiler=$machine-linux-gnu-gcc

require_target() {
    local library
    library=$(rustc --print target-libdir --target "$target")
    [[ ! -d $library ]] || return 0
    command -v rustup >/dev/null ||
        fail "binary.sh: Rust's standard library for $target is not installed"
    rustup target add "$target" >&2
}

# Makes a compiler for musl of the one for glibc, as Debian's package musl-tools does for one
# architecture.
make_compiler() {
    local folder=$PWD/.cache/image/musl-$arch package
    # Its paths are absolute: one that was made in another folder, and moved here, is made again.
    if ! grep -qsF " $folder/specs" "$folder/cc"; then
        package=$(fetch_packages "$arch" musl)
        rm -rf "$folder"
        mkdir -p "$folder"
        dpkg-deb -x "$package" "$folder"
        sed "s,/usr/,$folder/usr/,g" "$folder/usr/lib/$machine-linux-musl/musl-gcc.specs" \
            >"$folder/specs"
        printf '#!/bin/sh\nexec %s "$@" -specs %s\n' "$compiler" "$folder/specs" >"$folder/.cc"
        chmod +x "$folder/.cc"
        mv "$folder/.cc" "$folder/cc"
    fi
    echo "$folder/cc"
}

# Copying and comparing for x86_64; musl has them for arm64 in a form that is as fast. Without loops
# that the compiler turns into calls of themselves.
readonly memory_flags=(-O2 -ffreestanding -fno-tree-loop-distribute-patterns)

# Makes a linker that takes the functions of memory.c before those of musl. Its name has their digest:
# Cargo links again if it is another.
make_linker() {
    local folder=$PWD/.cache/image/musl-$arch source=deploy/image/memory.c digest linker
    digest=$(sha256sum "$source" | cut -c 1-16)
    linker=$folder/link-$digest
    if ! grep -qsF " $folder/memory-$digest.o" "$linker"; then
        "$cc" "${memory_flags[@]}" -c "$source" -o "$folder/memory-$digest.o"
        printf '#!/bin/sh\nexec %s %s "$@"\n' "$compiler" "$folder/memory-$digest.o" >"$folder/.link"
        chmod +x "$folder/.link"
        mv "$folder/.link" "$linker"
    fi
    echo "$linker"
}

require_programs cargo:rust curl:curl dpkg-deb:dpkg make:make sha256sum:coreutils \
    "$compiler:gcc-${machine/_/-}-linux-gnu"
require_target
cc=$(make_compiler)
linker=$compiler
[[ $arch != amd64 ]] || linker=$(make_linker)
build=${CARGO_TARGET_DIR:-$PWD/target}
cargo_home=${CARGO_HOME:-$HOME/.cargo}
# Paths of this machine are no part of the result.
maps=("$PWD=/deltaproxy" "$build=/target" "$cargo_home=/cargo")
flags=("${maps[@]/#/--remap-path-prefix=}")
# A megabyte less: -Cforce-unwind-tables=no has no effect on functions that are optimized at link time.
# Relative relocations take a tenth if packed, which ld has for x86_64 alone.
[[ $profile == dev ]] || flags+=("-Clink-arg=-Wl,-T,$PWD/deploy/image/no-unwind-tables.ld")
[[ $arch != amd64 ]] || flags+=(-Clink-arg=-Wl,-z,pack-relative-relocs)
export RUSTFLAGS="${flags[*]}"
variable=${target//-/_}
export "CC_$variable=$cc" "AR_$variable=$machine-linux-gnu-ar"
export "CFLAGS_$variable=${maps[*]/#/-ffile-prefix-map=}"
export "CARGO_TARGET_${variable^^}_LINKER=$linker"
if [[ $arch == arm64 ]]; then
    # Kernels for arm64 have pages of 4, 16 or 64 KiB; jemalloc must be built for the largest.
    export JEMALLOC_SYS_WITH_LG_PAGE=16
fi
cargo build --locked --profile "$profile" --target "$target" --bin deltaproxy >&2
folder=$profile
[[ $profile != dev ]] || folder=debug
echo "$build/$target/$folder/deltaproxy"
