package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/cli/verify"
)

// componentSelector selects the workloads of every part of Mooring.
const componentSelector = "app.kubernetes.io/name=mooring"

// componentJSON is a DaemonSet or Deployment of Mooring.
type componentJSON struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Ready     int32  `json:"ready"` // pods of the present version
	Desired   int32  `json:"desired"`
	Version   string `json:"version,omitempty"`
	Image     string `json:"image,omitempty"`
	Reason    string `json:"reason,omitempty"` // not ready
}

func componentOf(w verify.Workload) componentJSON {
	c := componentJSON{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, Ready: w.Ready,
		Desired: w.Desired, Version: w.Version, Image: w.Image}
	if err := w.Problem(); err != nil {
		c.Reason = err.Error()
	}
	return c
}

// addComponents adds the components of the cluster. A missing right becomes a note.
func (c *cluster) addComponents(ctx context.Context, s *statusJSON) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	for _, list := range []func(context.Context) ([]componentJSON, error){c.daemonSets,
		c.deployments} {
		components, err := list(ctx)
		switch {
		case isForbidden(err):
			s.Notes = append(s.Notes, err.Error())
		case err != nil:
			return err
		}
		s.Components = append(s.Components, components...)
	}
	slices.SortFunc(s.Components, func(a, b componentJSON) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
	return nil
}

func (c *cluster) daemonSets(ctx context.Context) ([]componentJSON, error) {
	list, err := c.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: componentSelector})
	if err != nil {
		return nil, clusterError(err, "list", "daemonsets.apps", "the health of agents and fences "+
			"is not known")
	}
	var all []componentJSON
	for i := range list.Items {
		all = append(all, componentOf(verify.DaemonSet(&list.Items[i])))
	}
	return all, nil
}

func (c *cluster) deployments(ctx context.Context) ([]componentJSON, error) {
	list, err := c.AppsV1().Deployments(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: componentSelector})
	if err != nil {
		return nil, clusterError(err, "list", "deployments.apps", "the health of controller and "+
			"webhooks is not known")
	}
	var all []componentJSON
	for i := range list.Items {
		all = append(all, componentOf(verify.Deployment(&list.Items[i])))
	}
	return all, nil
}

// writeComponents writes a table. The error of the command has the reasons.
func (p *Program) writeComponents(all []componentJSON, output *outputFlags) error {
	if len(all) == 0 {
		return nil
	}
	rows := [][]string{{"COMPONENT", "READY", "DESIRED", "VERSION"}}
	wide := output.isWide()
	if wide {
		rows[0] = append(rows[0], "IMAGE")
	}
	for _, c := range all {
		row := []string{c.Name, strconv.Itoa(int(c.Ready)), strconv.Itoa(int(c.Desired)), c.Version}
		if wide {
			row = append(row, c.Image)
		}
		rows = append(rows, row)
	}
	fmt.Fprintln(p.Out)
	return output.writeTable(p.Out, rows)
}
