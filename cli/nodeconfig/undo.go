package nodeconfig

import "context"

// Undo removes Mooring's setting from all places of the flavour, and restores replaced files. It
// needs no containerd.
func (n *Node) Undo(ctx context.Context) error {
	f, err := n.detect()
	if err != nil {
		return err
	}
	changes, err := n.undoPlan(f)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		n.printf("nothing to remove")
		return nil
	}
	for _, c := range changes {
		if n.DryRun {
			n.printDiff(c)
			continue
		}
		if err := n.apply(c); err != nil {
			return err
		}
		if c.after == nil {
			n.printf("%s: removed", c.path)
		} else {
			n.printf("%s: restored", c.path)
		}
	}
	return n.restart(ctx, f)
}

func (n *Node) undoPlan(f flavour) (changes []change, err error) {
	for _, dir := range f.dropIns {
		c, err := n.removeDropIn(dir)
		if err != nil {
			return nil, err
		}
		if !c.isEmpty() {
			changes = append(changes, c)
		}
	}
	for _, path := range f.templates {
		c, err := n.removeFromTemplate(path)
		if err != nil {
			return nil, err
		}
		if !c.isEmpty() {
			changes = append(changes, c)
		}
	}
	return changes, nil
}
