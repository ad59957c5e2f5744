#!/bin/sh
# Installs Mooring on a node with systemd and containerd 2.x. For all nodes of a
# cluster, deploy/kubernetes/install.yaml does it. To be run as root
# from a folder that holds bin/ and deploy/. A policy that is there is kept.
#
#	deploy/install.sh              install or upgrade, and start
#	deploy/install.sh --uninstall  take away all but the policy
set -eu
cd "$(dirname "$0")/.."

if [ "${1:-}" = --uninstall ]; then
	systemctl disable --now mooring-agent.service
	systemctl stop run-mooring.mount || echo "pods still use /run/mooring: it goes with the last of them" >&2
	rm -f /etc/systemd/system/mooring-agent.service /etc/systemd/system/run-mooring.mount /etc/containerd/conf.d/mooring.toml \
		/usr/local/bin/mooring-agent /usr/local/bin/mooring
	systemctl daemon-reload
	systemctl restart containerd.service
	exit
fi

install -D -m 0755 bin/mooring-agent bin/mooring -t /usr/local/bin
[ -e /etc/mooring/policy.yaml ] || install -D -m 0644 deploy/policy/observe.yaml /etc/mooring/policy.yaml
install -D -m 0644 deploy/systemd/mooring-agent.service deploy/systemd/run-mooring.mount -t /etc/systemd/system
systemctl daemon-reload
if ! cmp -s deploy/containerd/mooring.toml /etc/containerd/conf.d/mooring.toml; then
	install -D -m 0644 deploy/containerd/mooring.toml -t /etc/containerd/conf.d
	systemctl restart containerd.service # containers go on running
fi
systemctl enable mooring-agent.service
systemctl restart mooring-agent.service
