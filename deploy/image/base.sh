#!/usr/bin/env bash
# Writes the files of the image's base: the iptables programs of both backends, and kmod.
#
#   ./deploy/image/base.sh --arch amd64|arm64 --output DIR
#
# The base has no shell, no package manager and no libgcc, as the base of kube-proxy's image.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/image/debian.sh

arch=
output=
while (($# > 0)); do
    case $1 in
        --arch) arch=${2:?} ;;
        --output) output=${2:?} ;;
        *) arch= ; break ;;
    esac
    shift 2
done
if [[ -z $arch || -z $output ]]; then
    sed -n '4s/^# *//p' "${BASH_SOURCE[0]}" >&2
    exit 64
fi

# Programs and links that stay in /usr/sbin and /usr/bin; scripts would need a shell.
readonly kept='ip6?tables(-(nft|legacy))?(-(save|restore))?|xtables-(nft|legacy)-multi|kmod|modprobe|lsmod|modinfo'

unpack() {
    local packages package name folder
    packages=$(fetch_packages "$arch" base)
    for folder in bin sbin lib lib64; do
        mkdir -p "$output/usr/$folder"
        ln -s "usr/$folder" "$output/$folder"
    done
    mkdir -p "$output/var/lib/dpkg/status.d"
    while read -r package; do
        name=$(dpkg-deb --field "$package" Package)
        dpkg-deb --fsys-tarfile "$package" |
            tar -x --keep-directory-symlink --no-same-owner -C "$output"
        # Scanners of images read the packages from here.
        dpkg-deb --field "$package" >"$output/var/lib/dpkg/status.d/$name"
    done <<<"$packages"
}

# Removes what no program of the image reads.
strip_files() {
    local root=$output
    find "$root"/usr/bin "$root"/usr/sbin -mindepth 1 -regextype posix-extended \
        ! -regex ".*/($kept)" -delete
    find "$root/usr/share/doc" -mindepth 2 ! -type d ! -name copyright -delete
    find "$root" -depth -type d \( -name gconv -o -name 'ossl-modules' -o -name 'engines-3' \) \
        -exec rm -rf {} +
    rm -rf "$root"/usr/share/{base-files,bug,info,initramfs-tools,lintian,locale,man,bash-completion} \
        "$root"/etc/{init.d,default,dpkg,profile.d,skel,update-motd.d,logcheck} \
        "$root"/{home,root,boot,mnt,media,opt,srv,usr/games,usr/src,usr/include} \
        "$root"/usr/local/* "$root"/var/{backups,cache,local,mail,opt,spool,log,lib/misc} \
        "$root"/usr/share/{dict,misc,sounds,zsh}
}

# The files that Debian's maintainer scripts would make.
configure() {
    local family suffix kind root=$output
    for family in iptables ip6tables; do
        for suffix in "" -save -restore; do
            for kind in nft legacy; do
                [[ -e $root/usr/sbin/$family-$kind$suffix ]] ||
                    fail "base.sh: the package iptables has no $family-$kind$suffix"
            done
            # The default of Debian. The program itself selects the backend of kubelet.
            ln -sf "$family-nft$suffix" "$root/usr/sbin/$family$suffix"
        done
    done
    echo 'root:x:0:0:root:/:/sbin/nologin' >"$root/etc/passwd"
    echo 'root:x:0:' >"$root/etc/group"
    echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
    # Mount points, since a runtime cannot make them in a read-only root.
    mkdir -p "$root"/{dev,proc,sys,tmp,run,root} "$root"/usr/lib/modules \
        "$root"/var/lib/kube-proxy "$root"/var/run/secrets/kubernetes.io/serviceaccount
    : >"$root/run/xtables.lock"
    : >"$root/etc/resolv.conf"
    : >"$root/etc/hosts"
}

require_programs curl:curl dpkg-deb:dpkg
mkdir -p "$output"
unpack
strip_files
configure
