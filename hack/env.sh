# shellcheck shell=sh
# Source this file, from any directory. It sets the cache directory, and puts a Go of 1.21 or newer
# into PATH. Such a Go fetches the Go version of go.mod by itself. hack/setup installs one.
export MOORING_CACHE="${MOORING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mooring}"
# Distributions and `go env -w` may set "local".
export GOTOOLCHAIN="${GOTOOLCHAIN:-auto}"
# On Debian, mke2fs is not in the PATH of ordinary users.
case :$PATH: in *:/usr/sbin:*) ;; *) PATH=$PATH:/usr/sbin:/sbin ;; esac

mooring_go_works() {
	case $(GOTOOLCHAIN=local "$1" version 2>/dev/null) in
	*" go1."2[1-9]* | *" go1."[3-9][0-9]*) ;;
	*) return 1 ;;
	esac
}

# If the Go in PATH is too old, search the versioned packages and the Go of hack/setup.
if ! mooring_go_works go; then
	for mooring_go in /usr/lib/go-1.*/bin/go "$MOORING_CACHE"/go-bootstrap/usr/lib/go-1.*/bin/go; do
		mooring_go_works "$mooring_go" || continue
		PATH=${mooring_go%/go}:$PATH
		break
	done
fi

# With this tag, libvirt's binding needs no headers of libvirt. Without the tag or without cgo,
# shim/virt/libvirt compiles without libvirt.
mooring_flags=${GOFLAGS-$(GOTOOLCHAIN=local go env GOFLAGS 2>/dev/null || :)}
case $mooring_flags in
*-tags*) ;;
*) export GOFLAGS="${mooring_flags:+$mooring_flags }-tags=libvirt_dlopen" ;;
esac
