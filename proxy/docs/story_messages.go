package docs

import (
	_ "embed" // the messages
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"go.yaml.in/yaml/v3"
)

// storyMessagesText says in its head how it is written.
//
//go:embed story_messages.yaml
var storyMessagesText []byte

// storyMessages returns the schema of msg by row, for the rows of Story without a documented shape.
func storyMessages() map[string]*huma.Schema {
	var all struct{ Rows map[string]yaml.Node }
	must(yaml.Unmarshal(storyMessagesText, &all))
	byRow := map[string]*huma.Schema{}
	for name, row := range all.Rows {
		byRow[name] = messageSchema(&row)
	}
	return byRow
}

// messageSchema returns the schema of a value in the notation of story_messages.yaml. The required members are in the
// order of the node.
func messageSchema(n *yaml.Node) *huma.Schema {
	switch n.Kind {
	case yaml.AliasNode:
		return messageSchema(n.Alias)
	case yaml.SequenceNode:
		return &huma.Schema{Type: huma.TypeArray, Items: messageSchema(n.Content[0]), Nullable: len(n.Content) == 2}
	case yaml.MappingNode:
		s := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}}
		for i := 0; i < len(n.Content); i += 2 {
			name, optional := strings.CutSuffix(n.Content[i].Value, "|absent")
			s.Properties[name] = messageSchema(n.Content[i+1])
			if !optional {
				s.Required = append(s.Required, name)
			}
		}
		return s
	default:
		return scalarSchema(n.Value)
	}
}
