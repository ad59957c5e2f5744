package shimcmd

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/hook"
)

func hookCommand(log *logging) *cobra.Command {
	var config hook.Config
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Give KubeVirt's domains headroom to grow, as a hook sidecar",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if config.Log, err = log.open(); err != nil {
				return err
			}
			if config.Options.Host, err = headroom.ReadHost(os.DirFS("/")); err != nil {
				return fmt.Errorf("hook: %w", err)
			}
			return hook.Serve(cmd.Context(), config)
		},
	}
	config.AddFlags(cmd.Flags())
	return cmd
}
