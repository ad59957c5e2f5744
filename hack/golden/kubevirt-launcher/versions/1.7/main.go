// Command kubevirt-launcher renders the pods of VMs with KubeVirt's own template service. It reads
// a JSON list of questions from standard input and writes a list of answers to standard output.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"kubevirt.io/client-go/log"
)

func main() {
	log.InitializeLogging("kubevirt-launcher")
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "kubevirt-launcher: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	all, err := answers(input)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}
