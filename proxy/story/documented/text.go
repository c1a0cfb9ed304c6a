package documented

import (
	"strings"

	"github.com/tidwall/gjson"
)

// The functions below read valid JSON from an index, and return the index after what they have read.

func blanks(text string, at int) int {
	for at < len(text) && text[at] <= ' ' {
		at++
	}
	return at
}

// skip passes over a value of any type.
func skip(text string, at int) int {
	for depth := 0; at < len(text); {
		switch text[at] {
		case '"':
			at = quoted(text, at)
		case '{', '[':
			depth++
			at++
			continue
		case '}', ']':
			depth--
			at++
		case ',', ':', ' ', '\n', '\t', '\r': // within an object or a list
			at++
			continue
		default:
			at = literal(text, at)
		}
		if depth == 0 {
			break
		}
	}
	return at
}

// quoted passes over a string.
func quoted(text string, at int) int {
	at++
	end := at + strings.IndexByte(text[at:], '"')
	if strings.IndexByte(text[at:end], '\\') < 0 {
		return end + 1
	}
	for ; text[at] != '"'; at++ {
		if text[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// literal passes over a number, true, false or null.
func literal(text string, at int) int {
	for at < len(text) && text[at] > ' ' && text[at] != ',' && text[at] != '}' && text[at] != ']' {
		at++
	}
	return at
}

// member reads the name of a member, up to its value.
func member(text string, at int) (name string, value int) {
	end := quoted(text, at)
	if name = text[at+1 : end-1]; strings.IndexByte(name, '\\') >= 0 {
		name = gjson.Parse(text[at:end]).Str
	}
	return name, blanks(text, blanks(text, end)+1)
}

// next returns the index of the next member or item, or of the end of the object or list.
func next(text string, at int) int {
	if at = blanks(text, at); at < len(text) && text[at] == ',' {
		return blanks(text, at+1)
	}
	return at
}
