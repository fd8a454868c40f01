# Fetches packages of Debian by checksum. Sourced by the scripts of this folder.
#
# packages.lock has one line for each package: architecture, use, SHA-256, path on a mirror. A use is
# `base` for the image, or `musl` for headers of the C library. `build.sh --lock` writes the file.

# A failure in $(...) is one of the script.
shopt -s inherit_errexit

readonly lock=deploy/image/packages.lock
readonly deb_cache=.cache/image/packages
# The mirror that apt uses here, without the last part of its path: locked paths begin with that.
own_mirror() {
    apt-get indextargets --format '$(REPO_URI)' | sed -n 's,/debian/$,,p' | sort | head -n 1
}

# A mirror deletes versions that were replaced; an archive of snapshots keeps every file.
mirrors=("${DEBIAN_MIRROR:-$(own_mirror)}" ${DEBIAN_SNAPSHOTS:+"$DEBIAN_SNAPSHOTS"})
readonly mirrors

fail() {
    local line
    for line in "$@"; do echo "$line"; done >&2
    exit 1
}

require_programs() {
    local need
    for need in "$@"; do
        command -v "${need%%:*}" >/dev/null ||
            fail "${0##*/}: \`${need%%:*}\` is not installed" "hint: apt-get install ${need##*:}"
    done
}

# Prints the machine of GNU names for an architecture of Debian and OCI.
machine_of() {
    case $1 in
        amd64) echo x86_64 ;;
        arm64) echo aarch64 ;;
        *) fail "${0##*/}: --arch: unknown architecture \`$1\`: must be amd64 or arm64" ;;
    esac
}

# fetch_packages ARCH USE [NAME] : prints the paths of the packages, one in each line.
fetch_packages() {
    local arch use sha256 path
    mkdir -p "$deb_cache"
    while read -r arch use sha256 path; do
        [[ $arch == "$1" && $use == "$2" && $path == */"${3-}"* ]] || continue
        fetch_package "$sha256" "$path"
    done <"$lock"
}

fetch_package() {
    local sha256=$1 path=$2 mirror file
    if [[ -e $deb_cache/$sha256.deb ]]; then
        echo "$deb_cache/$sha256.deb"
        return
    fi
    file=$(mktemp "$deb_cache/.new.XXXXXX")
    for mirror in "${mirrors[@]}"; do
        # Snapshots are per archive and time; the newest one before this date has the file.
        [[ $mirror != "${DEBIAN_SNAPSHOTS-}" ]] || path=${path/\/pool\//\/$(lock_date)\/pool\/}
        if curl --silent --fail --location --max-time 120 --output "$file" "$mirror/$path" &&
            sha256sum --check --status <<<"$sha256  $file"; then
            mv "$file" "$deb_cache/$sha256.deb"
            echo "$deb_cache/$sha256.deb"
            return
        fi
    done
    rm -f "$file"
    newest_package "$path"
}

# Debian deletes the old file at a security update. A release wants the locked one.
newest_package() {
    local name=${1##*/} arch folder
    [[ ${ALLOW_NEWER_PACKAGES-} == yes ]] ||
        fail "${0##*/}: cannot fetch $name: no mirror has the version of $lock" \
            "hint: write the file again with \`build.sh --lock\`, or set DEBIAN_MIRROR"
    arch=${name##*_}
    arch=${arch%.deb}
    name=${name%%_*}
    [[ $arch != all ]] || arch=amd64
    folder=$deb_cache/newest-$arch-$name
    if ! compgen -G "$folder/*.deb" >/dev/null; then
        echo "${0##*/}: $name: no mirror has the version of $lock; using the newest one" >&2
        mkdir -p "$folder"
        apt_of "$arch" update
        (cd "$folder" && apt_of "$arch" download "$name")
    fi
    compgen -G "$folder/*.deb"
}

lock_date() { sed -n 's/^# Written at \([0-9TZ]*\)\.$/\1/p' "$lock"; }

# apt_of ARCH ARGS... : runs apt-get with lists of its own, as if no package was installed.
apt_of() {
    local root=$PWD/.cache/image/apt-$1 arch=$1 key=/usr/share/keyrings/debian-archive-keyring.gpg
    [[ $PWD == "$top" ]] || root=$top/.cache/image/apt-$1
    shift
    mkdir -p "$root"/{lists,archives}/partial
    : >"$root/status"
    printf "deb [signed-by=$key] %s $suite%s main\n" \
        "${mirrors[0]}/debian" "" "${mirrors[0]}/debian-security" "-security" >"$root/sources.list"
    apt-get -qq -o Dir::Etc::sourcelist="$root/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::lists="$root/lists" -o Dir::State::status="$root/status" \
        -o Dir::Cache="$root" -o APT::Architecture="$arch" -o APT::Architectures="$arch" \
        -o APT::Sandbox::User= -o APT::Install-Recommends=0 -o Acquire::Languages=none "$@"
}

# Writes packages.lock with the current versions of everything that the image's programs need.
write_lock() {
    require_programs apt-get:apt
    local arch names new
    new=$(mktemp)
    {
        echo "# Packages of Debian $suite in the image, and for compiling. \`build.sh --lock\` writes it."
        date --utc '+# Written at %Y%m%dT%H%M%SZ.'
        for arch in amd64 arm64; do
            apt_of "$arch" update
            names=$(apt_of "$arch" install --print-uris "${programs[@]}" |
                awk '{ sub(/_.*/, "", $2); print $2 }' | grep -vxF "$(printf '%s\n' "${unused[@]}")")
            # shellcheck disable=SC2086  # names are words
            locked_lines "$arch" base $names base-files
            locked_lines "$arch" musl musl-dev
        done
    } >"$new"
    mv "$new" "$lock"
    chmod 644 "$lock"
}

# locked_lines ARCH USE PACKAGES...
locked_lines() {
    local arch=$1 use=$2
    shift 2
    # In an empty folder: apt-get skips what lies there already.
    (cd "$(mktemp -d)" && apt_of "$arch" download --print-uris "$@") |
        sed -E "s,^'[a-z]+://[^/]+/([^']*)' .* SHA256:([0-9a-f]*)$,$arch $use \2 \1," |
        LC_ALL=C sort -k4
}

readonly top=$PWD suite=bookworm
readonly programs=(iptables kmod)
# The C library needs them for threads that are cancelled, which none of the programs does.
readonly unused=(libgcc-s1 gcc-12-base)
