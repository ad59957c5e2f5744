package cli

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/cli/uninstall"
	"github.com/mooring-vm/mooring/cli/verify"
	"github.com/mooring-vm/mooring/internal/kubeclient"
	"github.com/mooring-vm/mooring/internal/kubeclient/clientset"
)

// verifyTimeout is the default for --timeout.
const verifyTimeout = 2 * time.Minute

func (p *Program) verifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that an installation works: CRDs, agents, controller, webhooks",
		Long: "Checks each part of an installation, and waits for it. helm test runs it in a\n" +
			"pod of the cluster: to reach the webhooks it needs the cluster IPs of Services.\n\n" +
			"crds: the API server serves Mooring's resources. agent, fence, controller: all\n" +
			"pods are ready, in the present version. webhooks: each one answers through its\n" +
			"Service, with a certificate of its caBundle.",
		Args: between(0, 0, "none"),
	}
	c := verify.Cluster{Dial: (&net.Dialer{}).DialContext,
		Print: func(line string) { fmt.Fprintln(p.Out, oneLine(line)) }}
	var kubeconfig string
	var timeout time.Duration
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, kubeconfigFlag, "",
		"`file` of the cluster, or "+kubeclient.InCluster+" for the pod's service account "+
			"(default: KUBECONFIG, or kubectl's)")
	flags.StringVarP(&c.Namespace, "namespace", "n", uninstall.DefaultNamespace,
		"namespace of the installation")
	flags.StringSliceVar(&c.Parts, "parts", verify.Parts(), "parts to check")
	flags.DurationVar(&timeout, "timeout", verifyTimeout, "maximum wait for all parts")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, part := range c.Parts {
			if !slices.Contains(verify.Parts(), part) {
				return usage("--parts %q: want some of %s", part, strings.Join(verify.Parts(), ","))
			}
		}
		if timeout <= 0 {
			return usage("--timeout %s: want more than 0", timeout)
		}
		named, err := p.requireCluster(cmd, kubeconfig)
		if err != nil {
			return err
		}
		c.Client, err = clientset.New(named.config, "mooring/"+p.Build.Version)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		end := p.progress(c.Progress)
		defer end()
		return c.Run(ctx)
	}
	return cmd
}
