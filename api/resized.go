package api

// ResizedLabel is "true" on a VirtualMachineInstance that was resized in place. KubeVirt copies it
// to the target pods of migrations, which the API server then creates only if the launcher webhook
// has given them the VM's size.
const ResizedLabel = "resized" + Suffix
