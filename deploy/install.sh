#!/bin/sh
# Installs Mooring on a node with systemd and containerd 2.x. For all nodes of a
# cluster, deploy/kubernetes/install.yaml does it. To be run as root
# from a folder that holds bin/ and deploy/. A policy that is there is kept.
#
#	deploy/install.sh              install or upgrade, and start
#	deploy/install.sh --uninstall  take away all but the policy
#
# CONTAINERD names the program whose configuration is looked at; the default is
# the containerd in PATH.
set -eu
cd "$(dirname "$0")/.."

policy=/etc/mooring/policy.yaml
hook=/usr/local/libexec/mooring/mooring-hook

# validator_enabled reads what containerd makes of all its configuration files.
validator_enabled() {
	"${CONTAINERD:-containerd}" config dump | awk '
		/^ *\[/ { inside = /nri\.v1\.nri.*default_validator\]/ }
		inside && /^ *enable = true/ { found = 1 }
		END { exit !found }'
}

if [ "${1:-}" = --uninstall ]; then
	systemctl disable --now mooring-agent.service mooring-fence.service
	systemctl stop run-mooring.mount || echo "pods still use /run/mooring: it goes with the last of them" >&2
	rm -rf /sys/fs/bpf/mooring # nothing tracks processes any more
	rm -f /etc/systemd/system/mooring-agent.service /etc/systemd/system/mooring-fence.service \
		/etc/systemd/system/run-mooring.mount /etc/containerd/conf.d/mooring.toml \
		/usr/local/bin/mooring-agent /usr/local/bin/mooring "$hook"
	systemctl daemon-reload
	systemctl restart containerd.service
	exit
fi

[ -e "$policy" ] || install -D -m 0644 deploy/policy/observe.yaml "$policy"
# A policy that the new agent does not take would keep it down: then nothing else is changed.
bin/mooring-agent check --policy "$policy"
install -D -m 0755 bin/mooring-agent bin/mooring -t /usr/local/bin
# In one step: launchers that are created meanwhile mount the old program or the new one.
install -D -m 0755 bin/mooring-hook "$hook.new"
mv -f "$hook.new" "$hook"
install -D -m 0644 deploy/systemd/mooring-agent.service deploy/systemd/mooring-fence.service deploy/systemd/run-mooring.mount -t /etc/systemd/system
systemctl daemon-reload
if ! cmp -s deploy/containerd/mooring.toml /etc/containerd/conf.d/mooring.toml; then
	install -D -m 0644 deploy/containerd/mooring.toml -t /etc/containerd/conf.d
	systemctl restart containerd.service # containers go on running
fi
systemctl enable mooring-agent.service mooring-fence.service
systemctl restart mooring-agent.service mooring-fence.service

if ! validator_enabled; then
	cat >&2 <<-'EOF'

		WARNING: Mooring is installed and runs, but containerd does not read
		/etc/containerd/conf.d/mooring.toml (or is older than 2.2). While the agent is away, launchers
		are created without their limits, also those that require it. At the top of
		/etc/containerd/config.toml there must be

		    imports = ['/etc/containerd/conf.d/*.toml']

		Add it, restart containerd, and look: containerd config dump | grep -A 12 default_validator
	EOF
	exit 1
fi
