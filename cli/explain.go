package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/cli/explain"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

// refusedError reports that the pod would be refused.
type refusedError struct{ namespace, name string }

func (e *refusedError) Error() string {
	return fmt.Sprintf("pod %s/%s would be refused", e.namespace, e.name)
}

const unknown = "unknown"

// explainOptions are the flags of explain.
type explainOptions struct {
	pod, namespace      string
	memory, controllers string
	architecture        string
	granted             string
	accountsUnknown     bool
	output              *format
}

func (p *Program) explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain --pod FILE POLICY",
		Short: "Show the decisions of a node with this policy about a pod",
		Long: "Shows for each container of a pod whether it runs a VM, the deciding rule of\n" +
			"the policy, the resulting settings or refusal, and the values in the kernel.\n" +
			"The agent decides by the same code. The file must include changes by admission\n" +
			"(limits of a LimitRange, annotations of webhooks).\n\n" +
			"POLICY or the pod's FILE may be - for standard input. Exit code 6: a container\n" +
			"would be refused. In mode observe none is.",
		Args: between(1, 1, "POLICY"),
	}
	var o explainOptions
	o.output = formatFlag(cmd, formatText, formatJSON)
	flags := cmd.Flags()
	flags.StringVar(&o.pod, "pod", "", "file with the pod, in YAML or JSON")
	flags.StringVarP(&o.namespace, "namespace", "n", "",
		`namespace of a pod whose file has none (default "default")`)
	flags.StringVar(&o.memory, "node-memory", "", "memory of the node, such as 64Gi, or unknown "+
		"(default: this machine's)")
	flags.StringVar(&o.controllers, "controllers", "",
		"cgroup controllers of the node, such as cpu,io,memory,pids, or unknown (default: this\n"+
			"machine's)")
	flags.StringVar(&o.architecture, "architecture", "",
		"architecture of the node, such as amd64 or arm64 (default: that of the pod's\n"+
			"nodeSelector, or else this machine's)")
	flags.StringVar(&o.granted, "granted", "0", "lockable memory granted to other launchers of "+
		"the node")
	flags.BoolVar(&o.accountsUnknown, "without-kubernetes", false, "explain for an agent without "+
		"kubeconfig, which cannot read service accounts")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.explain(cmd.InOrStdin(), o, args[0])
	}
	return cmd
}

func (p *Program) explain(in io.Reader, o explainOptions, policyFile string) error {
	node, err := o.node()
	if err != nil {
		return err
	}
	if o.pod == "" || o.pod == stdin && policyFile == stdin {
		return usage("--pod %q: want a file with the pod; it or POLICY may be -, not both", o.pod)
	}
	rules, err := loadPolicy(in, policyFile)
	if err != nil {
		return err
	}
	pod, err := o.readPod(in)
	if err != nil {
		return err
	}
	if o.architecture == "" {
		node.Architecture = cmp.Or(pod.Spec.NodeSelector[corev1.LabelArchStable],
			node.Architecture)
	}
	explanation := explain.Explain(rules, pod, node)
	if *o.output == formatJSON {
		err = writeJSON(p.Out, explanation)
	} else {
		err = writeExplanation(p.Out, explanation)
	}
	if explanation.Refused {
		err = errors.Join(err, &refusedError{explanation.Namespace, explanation.Pod})
	}
	return err
}

// readPod reads the pod and sets its namespace like kubectl.
func (o explainOptions) readPod(in io.Reader) (*corev1.Pod, error) {
	if o.pod != stdin {
		file, err := os.Open(o.pod)
		if err != nil {
			return nil, fmt.Errorf("read pod: %w", err)
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, explain.MaxPodSize+1))
	if err != nil {
		return nil, fmt.Errorf("read pod %s: %w", o.pod, err)
	}
	pod, err := explain.ParsePod(data)
	if err != nil {
		return nil, fmt.Errorf("read pod %s: %w", o.pod, err)
	}
	switch {
	case pod.Namespace == "" && o.namespace == "":
		pod.Namespace = corev1.NamespaceDefault
	case pod.Namespace == "":
		pod.Namespace = o.namespace
	case o.namespace != "" && o.namespace != pod.Namespace:
		return nil, usage("--namespace %q: the pod's file has namespace %q", o.namespace,
			pod.Namespace)
	}
	return pod, nil
}

// node describes the node from flags, or else this machine.
func (o explainOptions) node() (explain.Node, error) {
	node := explain.ThisNode(os.DirFS("/"))
	node.AccountsUnknown = o.accountsUnknown
	switch o.memory {
	case "":
	case unknown:
		node.Memory = 0
	default:
		memory, err := api.ParseBytes(o.memory)
		if err != nil || memory == 0 {
			return node, usage("--node-memory %q: want a quantity such as 64Gi, or %q",
				o.memory, unknown)
		}
		node.Memory = int64(memory)
	}
	if o.architecture != "" {
		if err := kubevirt.CheckArchitecture(o.architecture); err != nil {
			return node, usage("--architecture: %w", err)
		}
		node.Architecture = o.architecture
	}
	granted, err := api.ParseBytes(o.granted)
	if err != nil {
		return node, usage("--granted %q: want a quantity such as 64Gi", o.granted)
	}
	node.Granted = int64(granted)
	switch o.controllers {
	case "":
	case unknown:
		node.Controllers = nil
	default:
		node.Controllers = strings.Split(o.controllers, ",")
	}
	return node, nil
}
