package cli

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// completion returns the values for an argument or a flag. Errors give no value: the shell has no
// place for them.
type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeFlag sets the completion of a flag that exists.
func completeFlag(cmd *cobra.Command, flag string, values completion) {
	if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err) // no such flag, or set twice
	}
}

// complete returns a completion with the values that start with the typed text.
func complete(values func(cmd *cobra.Command, typed string) []string) completion {
	return func(cmd *cobra.Command, _ []string, typed string) (
		[]string, cobra.ShellCompDirective,
	) {
		found := slices.DeleteFunc(values(cmd, typed), func(value string) bool {
			return !strings.HasPrefix(value, typed)
		})
		slices.Sort(found)
		return slices.Compact(found), cobra.ShellCompDirectiveNoFileComp
	}
}

// completePods completes POD: names of one namespace, and NAMESPACE/NAME after a slash or without
// a namespace.
func (p *Program) completePods(f *viewFlags) completion {
	pods := complete(func(cmd *cobra.Command, typed string) (values []string) {
		namespace := f.namespace
		full := strings.Contains(typed, "/") || namespace == ""
		if full {
			namespace = ""
		}
		v := p.completionView(cmd, *f, namespace)
		for _, l := range v.launchers {
			if full {
				values = append(values, l.Pod.Namespace+"/"+l.Pod.Name)
			}
			if !strings.Contains(typed, "/") {
				values = append(values, l.Pod.Name)
			}
		}
		return values
	})
	return func(cmd *cobra.Command, args []string, typed string) (
		[]string, cobra.ShellCompDirective,
	) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return pods(cmd, args, typed)
	}
}

// completionView returns the launchers for a completion; without an answer there are none.
func (p *Program) completionView(cmd *cobra.Command, f viewFlags, namespace string) *view {
	c, err := p.viewCluster(cmd, f)
	if err != nil {
		return &view{}
	}
	v, err := p.readView(completionContext(cmd), c, namespace)
	if err != nil {
		return &view{}
	}
	return v
}

func (p *Program) completeNodes(f *viewFlags) completion {
	return complete(func(cmd *cobra.Command, _ string) []string {
		return p.completionView(cmd, *f, "").nodes
	})
}

func (p *Program) completeNamespaces(f *viewFlags) completion {
	return complete(func(cmd *cobra.Command, _ string) (values []string) {
		c, err := p.viewCluster(cmd, *f)
		if err != nil || c == nil {
			return nil
		}
		list, err := c.CoreV1().Namespaces().List(completionContext(cmd), metav1.ListOptions{})
		if err != nil {
			return nil
		}
		for _, ns := range list.Items {
			values = append(values, ns.Name)
		}
		return values
	})
}

// completeKubeconfig completes names in the kubeconfig.
func (p *Program) completeKubeconfig(names func(*clientcmdapi.Config) iter.Seq[string]) completion {
	return complete(func(cmd *cobra.Command, _ string) []string {
		if f := cmd.Flag(kubeconfigFlag); f != nil {
			path := f.Value.String()
			p.kube.KubeConfig = &path
		}
		config, err := p.kube.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil
		}
		return slices.Collect(names(&config))
	})
}

func contexts(config *clientcmdapi.Config) iter.Seq[string] { return maps.Keys(config.Contexts) }
func clusters(config *clientcmdapi.Config) iter.Seq[string] { return maps.Keys(config.Clusters) }
func users(config *clientcmdapi.Config) iter.Seq[string]    { return maps.Keys(config.AuthInfos) }

// completionContext is the context of the command; cobra has none for a completion.
func completionContext(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
