// Command image makes the container image of the e2e suite's pods from bin/launcher.
//
//	go run ./integration/e2e/image REFERENCE FILE
package main

import (
	"errors"
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mooring-vm/mooring/hack/containerimage"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("want the image's reference and a file")
	}
	program, err := os.ReadFile("bin/launcher")
	if err != nil {
		return err
	}
	// The tracker recognises an emulator by the name of its file, so a link would not do.
	layer, err := containerimage.Layer(image.Files{
		"usr/bin/launcher":           {Content: program, Mode: 0o755},
		"usr/bin/qemu-system-x86_64": {Content: program, Mode: 0o755},
	})
	if err != nil {
		return err
	}
	img, err := containerimage.New(v1.Config{Entrypoint: []string{"/usr/bin/launcher"},
		Cmd: []string{"run"}, WorkingDir: "/"}, layer)
	if err != nil {
		return err
	}
	return containerimage.Write(args[1], map[string]v1.Image{args[0]: img})
}
