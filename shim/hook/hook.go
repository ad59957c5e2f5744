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

// DefaultSocket is the sidecar's socket in the directory that KubeVirt mounts and searches.
const DefaultSocket = "/var/run/kubevirt-hooks/mooring-headroom.sock"

// connectTimeout bounds how long a silent client can delay the sidecar's end.
const connectTimeout = 10 * time.Second

// versions are the supported versions of the protocol.
var versions = []string{"v1alpha1", "v1alpha2", "v1alpha3"}

// Config configures the sidecar.
type Config struct {
	Socket  string           // "": DefaultSocket
	Version string           // protocol version: v1alpha1, v1alpha2 or v1alpha3; "": all
	Options headroom.Options // for every domain

	// BestEffort starts a VM unchanged if it can get no headroom. Without it the VM does not start,
	// and KubeVirt shows the reason.
	BestEffort bool

	// Host returns the default capacities, and is called for each domain; nil: Options.Host. If it
	// fails the domain gets no headroom.
	Host func(ctx context.Context) (headroom.Host, error)

	Log *slog.Logger // nil: none
}

// AddFlags adds a flag for each field except Host and Log.
func (c *Config) AddFlags(flags *pflag.FlagSet) {
	c.Options.AddFlags(flags)
	flags.StringVar(&c.Socket, "socket", DefaultSocket,
		"the `file` to listen on, in a directory that KubeVirt mounts")
	flags.StringVar(
		&c.Version,
		"version",
		"",
		"version of the hook protocol: "+strings.Join(
			versions, ", ",
		)+"; without the flag all of them",
	)
	flags.BoolVar(&c.BestEffort, "best-effort", false,
		"start a VM unchanged if it can get no headroom")
}

func (c *Config) check() error {
	if c.Version != "" && !slices.Contains(versions, c.Version) {
		return fmt.Errorf("version %q: want one of %s", c.Version, strings.Join(versions, ", "))
	}
	return c.Options.Check()
}

// Serve answers KubeVirt's calls concurrently until ctx ends or KubeVirt calls Shutdown. KubeVirt
// does so after the VM has ended, so that the pod can complete. Serve then returns nil. It replaces
// the socket of an earlier run.
//
// It fails at once for an invalid configuration and for a socket it cannot listen on.
func Serve(ctx context.Context, c Config) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("hook: %w", err)
	}
	l, err := listen(ctx, cmp.Or(c.Socket, DefaultSocket))
	if err != nil {
		return fmt.Errorf("hook: %w", err)
	}
	s := newServer(c)
	// gRPC's default of 4 MiB per message is also KubeVirt's limit.
	rpc := grpc.NewServer(grpc.ConnectionTimeout(connectTimeout))
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
		return nil, fmt.Errorf("%s: want a socket or no file, found another kind of file", socket)
	default:
		if err := os.Remove(socket); err != nil {
			return nil, err
		}
	}
	var config net.ListenConfig
	return config.Listen(ctx, "unix", socket)
}
