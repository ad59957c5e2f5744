package decide

import (
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// allowFile checks a cgroup setting against the rule and the node's controllers.
func (d *decider) allowFile(s api.CgroupSetting) {
	requested := "annotation " + d.written(s.File+api.CgroupSuffix)
	if err := d.rule.AllowCgroupFile(s.File); err != nil {
		d.refuse(agentapi.ReasonCgroupRefused,
			"%s: %s; remove the annotation, or have the policy changed", requested, err)
		return
	}
	controller, _, _ := strings.Cut(s.File, ".")
	if known := d.facts.Controllers; known != nil && !slices.Contains(known, controller) {
		d.refuse(agentapi.ReasonCgroupRefused, "%s: containers of this node have no %s "+
			"controller, "+
			"only %s; remove the annotation, or run the pod elsewhere",
			requested, controller, strings.Join(known, ", "))
		return
	}
	d.setting(s.File).Allowed = s.Quantity()
}
