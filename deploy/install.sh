#!/bin/sh
# Installs Mooring on a node with systemd and containerd 2.x. For the nodes of a cluster, use
# deploy/kubernetes/install.yaml instead. Run the script as root, in a folder with bin/ and deploy/.
# It keeps an existing policy. It restarts containerd if containerd's setting changes. Containers
# keep running.
#
#	deploy/install.sh              install or upgrade, and start
#	deploy/install.sh --uninstall  remove all but the policy
#
# The script checks the configuration of the containerd in PATH. CONTAINERD names another program.
set -eu
cd "$(dirname "$0")/.."

policy=/etc/mooring/policy.yaml
hook=/usr/local/libexec/mooring/mooring-hook

# validator_enabled checks the effective configuration of containerd, with all imported files.
validator_enabled() {
	"${CONTAINERD:-containerd}" config dump | awk '
		/^ *\[/ { inside = /nri\.v1\.nri.*default_validator\]/ }
		inside && /^ *enable = true/ { found = 1 }
		END { exit !found }'
}

if [ "${1:-}" = --uninstall ]; then
	systemctl disable --now mooring-agent.service mooring-fence.service
	systemctl stop run-mooring.mount ||
		echo "pods still use /run/mooring: it disappears with the last of them" >&2
	# without the agent, the start gate would refuse its domains
	rm -f /etc/libvirt/hooks/qemu.d/50-mooring /etc/libvirt/hooks/mooring-gate.json
	rmdir /etc/libvirt/hooks/qemu.d 2>/dev/null || true # other programs may have hooks there
	rm -rf /sys/fs/bpf/mooring # removes the tracker from the kernel
	rm -f /etc/systemd/system/mooring-agent.service /etc/systemd/system/mooring-fence.service \
		/etc/systemd/system/run-mooring.mount /etc/containerd/conf.d/mooring.toml \
		/usr/local/bin/mooring-agent /usr/local/bin/mooring "$hook"
	systemctl daemon-reload
	systemctl restart containerd.service
	exit
fi

[ -e "$policy" ] || install -D -m 0644 deploy/policy/observe.yaml "$policy"
# The new agent would not start with an invalid policy, so the script stops here.
bin/mooring-agent check --policy "$policy"
install -D -m 0755 bin/mooring-agent bin/mooring -t /usr/local/bin
# Replace the hook in one step: a launcher created meanwhile must mount a complete program.
install -D -m 0755 bin/mooring-hook "$hook.new"
mv -f "$hook.new" "$hook"
install -D -m 0644 deploy/systemd/mooring-agent.service deploy/systemd/mooring-fence.service \
	deploy/systemd/run-mooring.mount -t /etc/systemd/system
systemctl daemon-reload
if ! cmp -s deploy/containerd/mooring.toml /etc/containerd/conf.d/mooring.toml; then
	install -D -m 0644 deploy/containerd/mooring.toml -t /etc/containerd/conf.d
	systemctl restart containerd.service # containers keep running
fi
systemctl enable mooring-agent.service mooring-fence.service
systemctl restart mooring-agent.service mooring-fence.service

if ! validator_enabled; then
	cat >&2 <<-'EOF'

		WARNING: Mooring is installed and runs, but containerd does not read
		/etc/containerd/conf.d/mooring.toml, or is older than 2.2. While the agent is away,
		containerd creates launchers without their limits, even if they require the agent.
		Add this line at the top of /etc/containerd/config.toml:

		    imports = ['/etc/containerd/conf.d/*.toml']

		Restart containerd, and check: containerd config dump | grep -A 12 default_validator
	EOF
	exit 1
fi
