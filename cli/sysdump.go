package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/agent/doctor"
	"github.com/mooring-vm/mooring/cli/sysdump"
	"github.com/mooring-vm/mooring/cli/uninstall"
)

func (p *Program) sysdumpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sysdump",
		Short: "Collect the state of Mooring in a cluster in one archive",
		Long: "Writes a tar.gz with versions, Mooring's objects, Events and ConfigMaps, its\n" +
			"workloads and pods with their logs, its webhook configurations, the\n" +
			"ResourceQuotas of namespaces with MigrationReservations, the launchers, and the\n" +
			"findings of the doctor on each node and about KubeVirt. It reads no Secrets, and\n" +
			"removes tokens and private keys from texts. Names of nodes, namespaces and pods\n" +
			"stay: read it before you share it.\n\n" +
			"A part that cannot be read does not end the dump: the file errors.txt in the\n" +
			"archive has the reasons. It requires the role view in the cluster, and the\n" +
			"rights of `doctor --all-nodes`. Nodes and webhook configurations require the\n" +
			"verb \"list\" for them.",
		Args: between(0, 0, "none"),
	}
	var flags viewFlags
	var namespace, file string
	flags.addCluster(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "",
		"`namespace` of Mooring's pods (default: that with most pods of Mooring)")
	cmd.Flags().StringVarP(&file, "file", "f", "",
		"new `file` (default: mooring-sysdump-TIME.tar.gz)")
	completeFlag(cmd, "namespace", p.completeNamespaces(&flags))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := p.connect(flags.clusterFlags)
		if err != nil {
			return err
		}
		if namespace == "" {
			namespace = p.mooringNamespace(cmd.Context(), c)
		}
		return p.sysdump(cmd.Context(), c, namespace, file)
	}
	return cmd
}

// mooringNamespace returns the namespace with most pods of Mooring. It reports other namespaces
// with such pods. Without an answer it returns the namespace of the documentation.
func (p *Program) mooringNamespace(ctx context.Context, c *cluster) string {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	list, err := c.CoreV1().Pods(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: sysdump.Selector})
	if err != nil {
		err = clusterError(err, "list", "pods", "find the namespace of Mooring's pods")
		fmt.Fprintf(p.ErrOut, "%s: using namespace %s\n", oneLine(err.Error()),
			uninstall.DefaultNamespace)
		return uninstall.DefaultNamespace
	}
	count := map[string]int{}
	for i := range list.Items {
		count[list.Items[i].Namespace]++
	}
	found := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	switch len(found) {
	case 0:
		return uninstall.DefaultNamespace
	case 1:
	default:
		fmt.Fprintf(p.ErrOut, "pods of Mooring are in several namespaces, %s: using %s, -n selects "+
			"another one\n", oneLine(strings.Join(found, " and ")), oneLine(found[0]))
	}
	return found[0]
}

func (p *Program) sysdump(ctx context.Context, c *cluster, namespace, file string) (err error) {
	name := "mooring-sysdump-" + p.Now().UTC().Format("20060102T150405Z")
	if file == "" {
		file = name + ".tar.gz"
	}
	reader, err := p.fleetReader(c)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create the archive: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	dump := &sysdump.Dump{Client: c, Mooring: reader.states, Namespace: namespace, Now: p.Now(),
		Limit: sysdump.Limit, Extra: p.sysdumpParts(ctx, c, reader)}
	end := p.progress(func() string {
		done, all := dump.Progress()
		return fmt.Sprintf("collected %d of %d parts", done, all)
	})
	missing, err := dump.Write(ctx, out, name)
	end()
	if err != nil {
		return fmt.Errorf("write the archive %s: %w", file, err)
	}
	for _, part := range missing {
		fmt.Fprintln(p.ErrOut, "not in the archive: "+oneLine(part))
	}
	fmt.Fprintln(p.Out, oneLine(file))
	return nil
}

// sysdumpParts returns the output of other commands, and the findings of the doctor by node and
// about KubeVirt.
func (p *Program) sysdumpParts(
	ctx context.Context, c *cluster, reader *fleetReader,
) []sysdump.Part {
	asJSON := func(value any, err error) ([]byte, error) {
		if err != nil {
			return nil, err
		}
		return json.MarshalIndent(value, "", "  ")
	}
	parts := []sysdump.Part{
		{Name: "client.json", Read: func(context.Context) ([]byte, error) {
			return asJSON(p.Build, nil)
		}},
		{Name: "status.json", Read: func(ctx context.Context) ([]byte, error) {
			return asJSON(p.readStatus(ctx, c))
		}},
		{Name: "launchers.json", Read: func(ctx context.Context) ([]byte, error) {
			v, err := p.readView(ctx, c, "")
			if err != nil {
				return nil, err
			}
			return asJSON(v.launchers, nil)
		}},
	}
	f, err := reader.read(ctx)
	if err != nil {
		return append(parts, sysdump.Part{Name: "doctor",
			Read: func(context.Context) ([]byte, error) { return nil, err }})
	}
	parts = append(parts, sysdump.Part{Name: "kubevirt.json",
		Read: func(ctx context.Context) ([]byte, error) {
			found := append([]doctor.Finding{}, c.examineKubeVirt(ctx, f.agents())...)
			return asJSON(doctor.Report{Findings: found, Problems: problemsIn(found)}, nil)
		}})
	for _, n := range f.nodes {
		parts = append(parts, sysdump.Part{Name: "doctor/" + n.name + ".json",
			Read: func(ctx context.Context) ([]byte, error) {
				found := c.examineNode(ctx, n.name, f.pods[n.name])
				if found.Error != "" {
					return nil, errors.New(found.Error)
				}
				return asJSON(found, nil)
			}})
	}
	return parts
}
