// Command kube is several programs of Kubernetes in one binary, because most of
// their code is the same: it is the one that it is called by the name of. The
// programs end with the process that started them.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"maps"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// programs return the exit code. A further one also needs a name in build.go of
// the folder above.
var programs = map[string]func() int{
	"etcd": func() int {
		etcdmain.Main(os.Args)
		return 0
	},
	"kube-apiserver": func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
}

func main() {
	name := filepath.Base(os.Args[0])
	run := programs[name]
	if run == nil {
		fmt.Fprintf(os.Stderr, "called as %q: want one of %s\n", name, strings.Join(slices.Sorted(maps.Keys(programs)), ", "))
		os.Exit(2)
	}
	if err := endWithParent(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(run())
}
