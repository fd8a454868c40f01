# Lists crates of the binary. Sourced by the scripts of this folder.

# linked_crates ARCH : prints the name and the version of each crate that is linked into the binary.
# Procedural macros and build scripts are not: they only compile it.
linked_crates() {
    local target
    target=$(machine_of "$1")-unknown-linux-musl
    cargo tree --locked --target "$target" --edges normal,no-proc-macro --prefix none --format '{p}' |
        awk '$1 != "deltaproxy" { sub(/^v/, "", $2); print $1, $2 }' | LC_ALL=C sort -u
}

# Prints the name, the version and the SHA-256 of each crate in Cargo.lock.
locked_crates() {
    awk -F '"' '/^name = /{ name = $2 } /^version = /{ version = $2 }
        /^checksum = /{ print name, version, $2 }' Cargo.lock | LC_ALL=C sort
}
