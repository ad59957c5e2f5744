package bpf
func rightsRole() error {return nil}
func nestedRole() error {return nil}
