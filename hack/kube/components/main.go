// Command kube contains several programs of Kubernetes in one binary, because they share most code.
// Its own name selects the program. The programs end with their parent process.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlerrors "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubeadmerrors "k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs maps the names that hack/kube links to this binary to functions. These run until the end
// and return the exit code.
func programs() map[string]func() int {
	return map[string]func() int{
		"etcd":                    etcd,
		"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
		"kube-controller-manager": func() int { return cli.Run(controllers.NewControllerManagerCommand()) },
		"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
		"kube-proxy":              func() int { return cli.Run(proxy.NewProxyCommand()) },
		"kubelet":                 func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
		"kubeadm":                 kubeadmMain,
		"kubectl":                 kubectlMain,
	}
}

func kubeadmMain() int {
	kubeadmerrors.HandleError(kubeadm.Run()) // it exits by itself on failure
	return 0
}

func kubectlMain() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlerrors.CheckErr(err) // it exits by itself
	}
	return 0
}

func etcd() int {
	etcdmain.Main(os.Args) // it exits by itself on failure
	return 0
}

func main() {
	name := filepath.Base(os.Args[0])
	all := programs()
	run := all[name]
	if run == nil {
		fmt.Fprintf(os.Stderr, "called as %q: want one of %s\n", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		os.Exit(2)
	}
	if err := endWithParent(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(run())
}
