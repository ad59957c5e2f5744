package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/mooring-vm/mooring/shim/headroom"
)

// DefaultSocket is where KubeVirt looks for a sidecar's socket: it goes by the
// directory, which it mounts.
const DefaultSocket = "/var/run/kubevirt-hooks/mooring-headroom.sock"

// connectTimeout bounds how long one who connects and says nothing holds up the end.
const connectTimeout = 10 * time.Second

// versions are those of the protocol.
var versions = []string{"v1alpha1", "v1alpha2", "v1alpha3"}

// Config says how to serve.
type Config struct {
	Socket  string           // "": DefaultSocket
	Version string           // of the protocol: v1alpha1, v1alpha2 or v1alpha3; "": all of them
	Options headroom.Options // for every domain

	// BestEffort lets a VM start as it is where it can get no headroom. Without it
	// the VM does not start, and KubeVirt shows the reason.
	BestEffort bool

	// Host is asked for each domain how far it may grow where the options leave it open;
	// nil: Options.Host. With an error the domain gets no headroom.
	Host func(ctx context.Context) (headroom.Host, error)

	Log *slog.Logger // nil: none
}

// AddFlags adds the flags that set c, but for the log and the host.
func (c *Config) AddFlags(flags *pflag.FlagSet) {
	c.Options.AddFlags(flags)
	flags.StringVar(&c.Socket, "socket", DefaultSocket, "the `file` to listen on, in a directory that KubeVirt mounts")
	flags.StringVar(&c.Version, "version", "", "version of the hook protocol: "+strings.Join(versions, ", ")+"; without it all of them")
	flags.BoolVar(&c.BestEffort, "best-effort", false, "let a VM start as it is where it can get no headroom")
}

func (c *Config) check() error {
	if c.Version != "" && !slices.Contains(versions, c.Version) {
		return fmt.Errorf("version %q: want one of %s", c.Version, strings.Join(versions, ", "))
	}
	return c.Options.Check()
}

// Serve answers KubeVirt's calls, any number at once, until ctx ends or KubeVirt
// calls Shutdown, which it does after the VM has ended, so that the pod can. Then it
// returns nil. A socket that an earlier run has left is replaced.
//
// The errors are a configuration that makes no sense, and a socket that cannot be
// listened on; both come at once.
func Serve(ctx context.Context, c Config) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("hook: %w", err)
	}
	l, err := listen(ctx, cmp.Or(c.Socket, DefaultSocket))
	if err != nil {
		return fmt.Errorf("hook: %w", err)
	}
	s := newServer(c)
	rpc := grpc.NewServer(grpc.ConnectionTimeout(connectTimeout)) // and gRPC's 4 MiB a message, as KubeVirt takes no more
	s.register(rpc)
	defer context.AfterFunc(ctx, rpc.Stop)()
	defer context.AfterFunc(s.shutdownCalled, rpc.GracefulStop)() // after the answer to Shutdown
	s.log.Info("waiting for KubeVirt's calls", "socket", l.Addr().String())
	if err := rpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("hook: %w", err)
	}
	return nil
}

func listen(ctx context.Context, socket string) (net.Listener, error) {
	switch info, err := os.Lstat(socket); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s: there is something else than a socket", socket)
	default:
		if err := os.Remove(socket); err != nil {
			return nil, err
		}
	}
	var config net.ListenConfig
	return config.Listen(ctx, "unix", socket)
}
