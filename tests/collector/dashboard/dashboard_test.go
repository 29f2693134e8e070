// The documented dashboard against Grafana's own schema: the types, required fields and values that the Grafana
// Foundation SDK generates from it. Unknown fields are mistakes, in panels and queries too.
package dashboard

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

const path = "../../../examples/fleet/dashboard.json"

// check returns what Grafana's schema says against a dashboard.
func check(text []byte) error {
	plugins.RegisterDefaultPlugins()
	var read dashboard.Dashboard
	for _, err := range []error{read.UnmarshalJSONStrict(text), read.Validate()} {
		// No mistakes may be an empty list of them.
		if err != nil && err.Error() != "" {
			return err
		}
	}
	return nil
}

func text(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDashboard(t *testing.T) {
	if err := check(text(t)); err != nil {
		t.Error(err)
	}
}

// Each mistake is one replacement in the dashboard, and the field that the schema names.
func TestMistakes(t *testing.T) {
	mistakes := []struct{ old, new, field string }{
		{`"schemaVersion": 39`, `"schemaVersion": "39"`, "schemaVersion"},
		{`"panels": [`, `"panes": [`, "panes"},
		{`"type": "timeseries",`, ``, "type"},
		{`"w": 12`, `"w": "wide"`, "gridPos"},
		{`"unit": "ops"`, `"unit": 7`, "unit"},
		{`"expr": "sum`, `"query": "sum`, "query"},
		{`"legendFormat": "{{name}}"`, `"legendFormat": 7`, "legendFormat"},
		{`"type": "datasource"`, `"kind": "datasource"`, "type"},
	}
	right := text(t)
	for _, mistake := range mistakes {
		wrong := bytes.Replace(right, []byte(mistake.old), []byte(mistake.new), 1)
		if bytes.Equal(wrong, right) {
			t.Errorf("the dashboard has no %s", mistake.old)
			continue
		}
		if err := check(wrong); err == nil || !strings.Contains(err.Error(), mistake.field) {
			t.Errorf("%s instead of %s: %v", mistake.new, mistake.old, err)
		}
	}
}
