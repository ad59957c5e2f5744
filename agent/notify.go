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

	// announceAfter is how long a node that boots waits for the agent's
	// connection before it goes on without, see the systemd unit.
	announceAfter = 30 * time.Second
)

// announce tells systemd that the agent is ready: once it is synchronised with
// the runtime, or after half a minute without.
func (a *Agent) announce(ctx context.Context) {
	patience := time.NewTimer(announceAfter)
	defer patience.Stop()
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
		case <-patience.C:
			notify(a.logger, daemon.SdNotifyReady+"\nSTATUS=Not connected to the container runtime yet; trying on")
			return
		}
	}
}

// notify passes state to systemd, if that runs the agent.
func notify(logger *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		logger.Warn("systemd could not be told of the agent's state", slog.Any("error", err))
	}
}
