package proxy

import "github.com/danielgtaylor/huma/v2"

// scalarSchemas are the scalars of the documented interface. Numbers that
// matter are texts: no reader may round them.
var scalarSchemas = map[*form]huma.Schema{
	textForm:     {Type: huma.TypeString},
	amountForm:   {Type: huma.TypeString, Pattern: amountPattern},
	decimalForm:  {Type: huma.TypeString, Pattern: decimalPattern},
	fractionForm: {Type: huma.TypeString, Pattern: fractionPattern},
	timeForm:     {Type: huma.TypeString, Format: "date-time"},
	integerForm:  {Type: huma.TypeInteger, Format: "int32"},
	booleanForm:  {Type: huma.TypeBoolean},
}

const (
	amountPattern   = `^-?[0-9]+$`
	decimalPattern  = `^-?[0-9]+\.[0-9]{18}$`
	fractionPattern = `^-?[0-9]+(\.[0-9]{1,18})?$`
)

// formNames are the forms that are components of the document.
var formNames = map[*form]string{
	coinForm:               "Coin",
	decCoinForm:            "DecCoin",
	paginationForm:         "Pagination",
	validatorForm:          "Validator",
	delegationResponseForm: "DelegationResponse",
	periodDelegationForm:   "PeriodDelegation",
	rewardForm:             "Reward",
	redelegationForm:       "RedelegationResponse",
	redelegationEntryForm:  "RedelegationEntry",

	paramsIn(stakingParamsMsg):      "StakingParams",
	paramsIn(distributionParamsMsg): "DistributionParams",
	paramsIn(authParamsMsg):         "AuthParams",
}

func paramsIn(msg *form) *form { return msg.members[0].form }

// redelegationForm is what the node's redelegations are, which the documented
// interface leaves open and nobody fills in.
var redelegationForm = objectOf(
	field{"redelegation", objectOf(
		field{"delegator_address", textForm, optional},
		field{"validator_src_address", textForm, optional},
		field{"validator_dst_address", textForm, optional},
		field{"entries", listOrNull(redelegationEntryForm), optional},
	), optional},
	field{"entries", listOf(objectOf(
		field{"redelegation_entry", redelegationEntryForm, optional},
		field{"balance", amountForm, optional},
	)), optional},
)

var redelegationEntryForm = objectOf(
	field{"creation_height", integerForm, optional},
	field{"completion_time", timeForm, optional},
	field{"initial_balance", amountForm, optional},
	field{"shares_dst", decimalForm, optional},
	field{"unbonding_id", integerForm, optional},
	field{"period_delegation_id", amountForm, optional},
)

// beyond is what the node is known to send beyond the documented members, by
// the place of the object: it is kept, and so described.
var beyond = map[string][]field{
	"Pagination": {{"next_key", textForm, optional}},
	"Validator": {
		{"jailed", booleanForm, optional},
		{"unbonding_height", amountForm, optional},
		{"unbonding_ids", listOf(amountForm), optional},
	},
	"Validator.description": {
		{"identity", textForm, optional},
		{"website", textForm, optional},
		{"security_contact", textForm, optional},
		{"details", textForm, optional},
	},
	"PeriodDelegation":  {{"period_type", integerForm, optional}},
	"delegator_rewards": {{"total", listOrNull(decCoinForm), optional}},
}

// listOrNull is a list for which the node's null is passed on.
func listOrNull(items *form) *form { return &form{kind: listKind, zero: "null", items: items} }

// schema describes a form, which stands at a place in the document: the name of
// a component or route, then those of the members down to it. A form that has a
// name becomes a component, and its schema a reference.
func (d *description) schema(f *form, at string) *huma.Schema {
	name, named := formNames[f]
	if !named {
		return d.inline(f, at)
	}
	if components := d.Components.Schemas.Map(); components[name] == nil {
		components[name] = d.inline(f, name)
		components[name].Description = schemaTexts[name]
	}
	return &huma.Schema{Ref: schemaRefs + name}
}

func (d *description) inline(f *form, at string) *huma.Schema {
	switch {
	case f.kind == objectKind:
		return d.object(f, at)
	case f.kind == listKind && f.items == nil: // only redelegations are left open
		return &huma.Schema{Type: huma.TypeArray, Items: d.schema(redelegationForm, at)}
	case f.kind == listKind:
		return &huma.Schema{Type: huma.TypeArray, Items: d.schema(f.items, at), Nullable: f.zero == "null"}
	}
	scalar := scalarSchemas[f]
	return &scalar
}

func (d *description) object(f *form, at string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}}
	for _, m := range append(f.members[:len(f.members):len(f.members)], beyond[at]...) {
		p := d.schema(m.form, at+"."+m.name)
		p.Description = memberText(at, m.name)
		s.Properties[m.name] = p
		if m.need != optional {
			s.Required = append(s.Required, m.name)
		}
	}
	return s
}

// memberText says what a member means: at its place, or wherever it stands.
func memberText(at, name string) string {
	if text, ok := memberTexts[at+"."+name]; ok {
		return text
	}
	return memberTexts[name]
}
