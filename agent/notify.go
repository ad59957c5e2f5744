package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/mooring-vm/mooring/plugin"
)

const (
	stopping = daemon.SdNotifyStopping

	// readyTimeout bounds the wait of a booting node for the agent's connection to the
	// runtime. See the systemd unit.
	readyTimeout = 30 * time.Second
)

// notifyReady notifies systemd of the agent's readiness: once the agent is synchronised with
// the runtime, or else after readyTimeout.
func (a *Agent) notifyReady(ctx context.Context) {
	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()
	for {
		status, changed := a.connection.Status()
		if status.Phase == plugin.Synchronized {
			notify(a.logger, daemon.SdNotifyReady)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-timeout.C:
			notify(a.logger, daemon.SdNotifyReady+
				"\nSTATUS=Not connected to the container runtime yet; retrying")
			return
		}
	}
}

// notify passes a state to systemd, if the agent runs as its service.
func notify(logger *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		logger.Warn("cannot notify systemd of the agent's state", slog.Any("error", err))
	}
}
