// Package quotaflags defines the flags about quota annotations, shared by the controller, which
// writes them, and the CLI, which shows them.
package quotaflags

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mooring-vm/mooring/quota"
)

// Add adds the flags, with the defaults of package quota.
func Add(flags *pflag.FlagSet, o *quota.Options) {
	flags.StringVar(&o.Prefix, "annotation-prefix", quota.DefaultPrefix,
		"prefix of the annotations that users and other controllers share")
	flags.StringVar(&o.ManagerAnnotation, "manager-annotation", quota.DefaultManagerAnnotation,
		"annotation of namespaces in which a manager of quotas keeps their base; "+quota.NoManager+
			" for none")
	flags.StringVar(&o.ManagerLabel, "manager-label", quota.DefaultManagerLabel,
		"label, with value true, of the quota that the manager keeps")
}

// Check returns an error that names the first invalid flag.
func Check(o quota.Options) error {
	domain, slash := strings.CutSuffix(o.Prefix, "/")
	if problems := validation.IsDNS1123Subdomain(domain); !slash || len(problems) > 0 {
		return fmt.Errorf("--annotation-prefix %q: want a domain and a slash, such as %s", o.Prefix,
			quota.DefaultPrefix)
	}
	if name := o.ManagerAnnotation; name != quota.NoManager && !qualified(name) {
		return fmt.Errorf("--manager-annotation %q: want the name of an annotation, or %s", name,
			quota.NoManager)
	}
	if name := o.ManagerLabel; !qualified(name) {
		return fmt.Errorf("--manager-label %q: want the name of a label", name)
	}
	return nil
}

func qualified(name string) bool { return len(validation.IsQualifiedName(name)) == 0 }
