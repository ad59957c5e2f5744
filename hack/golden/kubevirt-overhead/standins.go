package main

// standIn is a replacement for declarations of KubeVirt, or for a whole package.
type standIn struct {
	whole bool
	code  string
}

// replacedImports are packages of other modules with a stand-in: its folder by the package's path.
var replacedImports = map[string]string{
	"kubevirt.io/client-go/log":  "standin/log",
	"github.com/mitchellh/go-ps": "standin/ps",
	"runtime":                    "standin/runtime",
}

// standIns replace the readers of the cluster and of the node. They act like a cluster without
// configuration, and like a node with one VM. Package rlimit records the memory lock in place of
// setting it.
var standIns = map[string]standIn{
	"standin/log": {true, `package log

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
	"standin/ps": {true, `package ps

type Process interface {
	Pid() int
	PPid() int
	Executable() string
}

type process struct {
	pid, ppid int
	name      string
}

func (p process) Pid() int           { return p.pid }
func (p process) PPid() int          { return p.ppid }
func (p process) Executable() string { return p.name }

func Processes() ([]Process, error) {
	return []Process{process{3, 2, "libvirtd"}, process{4, 2, "virtqemud"},
		process{5, 1, "qemu-kvm"}}, nil
}
`},
	"standin/runtime": {true, `package runtime

var GOARCH string
`},
	"standin/rlimit": {true, `package rlimit

import "strconv"

var lock = "none"

func Set(size int64)  { lock = strconv.FormatInt(size, 10) }
func SetUnlimited()   { lock = "unlimited" }

func Take() string {
	defer func() { lock = "none" }()
	return lock
}
`},
	"pkg/virt-handler/isolation": {false, `package isolation

import (
	ps "github.com/mitchellh/go-ps"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/kubevirt/standin/rlimit"
)

type IsolationResult interface {
	Pid() int
	PPid() int
	GetQEMUProcess() (ps.Process, error)
}

type result struct{}

func (result) Pid() int  { return 2 }
func (result) PPid() int { return 1 }

func (result) GetQEMUProcess() (ps.Process, error) {
	all, err := ps.Processes()
	return all[len(all)-1], err
}

type PodIsolationDetector interface {
	Detect(*v1.VirtualMachineInstance) (IsolationResult, error)
}

type socketBasedIsolationDetector struct{}

func (*socketBasedIsolationDetector) Detect(*v1.VirtualMachineInstance) (IsolationResult, error) {
	return result{}, nil
}

func Detector() PodIsolationDetector { return &socketBasedIsolationDetector{} }

func setProcessMemoryLockRLimit(pid int, size int64) error {
	rlimit.Set(size)
	return nil
}
`},
	"pkg/hypervisor/common": {false, `package common

import "kubevirt.io/kubevirt/standin/rlimit"

func SetProcessMemoryLockRLimit(pid int, size int64) error {
	rlimit.Set(size)
	return nil
}

func SetProcessMemoryLockUnlimited(pid int) error {
	rlimit.SetUnlimited()
	return nil
}
`},
	"pkg/hypervisor/kvm": {false, `package kvm

import "kubevirt.io/kubevirt/pkg/virt-handler/isolation"

type KvmVirtRuntime struct {
	podIsolationDetector isolation.PodIsolationDetector
	KvmHypervisorBackend
}
`},
}
