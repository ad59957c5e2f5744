package main

// standIn is a replacement for declarations of KubeVirt, or for a whole package.
type standIn struct {
	whole bool
	code  string
}

const (
	logPath   = "kubevirt.io/client-go/log"
	logFolder = "standin/log"
)

// standIns replace the readers of the cluster. They act like a cluster without configuration.
var standIns = map[string]standIn{
	logFolder: {true, `package log

type logger struct{}

var Log logger

func (l logger) V(int) logger                { return l }
func (l logger) Object(any) logger           { return l }
func (l logger) Infof(string, ...any)        {}
func (l logger) Info(string)                 {}
func (l logger) Warningf(f string, a ...any) { panic(f) }
`},
	"pkg/virt-config": {true, `package virtconfig

import "k8s.io/apimachinery/pkg/api/resource"

const DefaultCPURequest = "100m"

type ClusterConfig struct{}

func (*ClusterConfig) GetMemoryOvercommit() int { return 100 }

func (*ClusterConfig) GetCPURequest() *resource.Quantity {
	q := resource.MustParse(DefaultCPURequest)
	return &q
}
`},
	"pkg/virt-api/webhooks/mutating-webhook/mutators": {false, `package mutators

import virtconfig "kubevirt.io/kubevirt/pkg/virt-config"

type VMIsMutator struct{ ClusterConfig *virtconfig.ClusterConfig }
`},
}
