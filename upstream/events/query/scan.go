package query

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A token identifies a kind of token.
type token int

const (
	invalid token = iota
	tag
	text
	number
	timestamp
	datestamp
	and
	contains
	exists
	equal
	less
	lessEqual
	greater
	greaterEqual
)

// String returns the token's name in errors.
func (t token) String() string {
	return [...]string{
		"invalid token", "tag", "string", "number", "timestamp", "datestamp", "AND operator", "CONTAINS operator",
		"EXISTS operator", "= operator", "< operator", "<= operator", "> operator", ">= operator",
	}[t]
}

// keywords are the words that are not tags.
var keywords = map[string]token{"AND": and, "CONTAINS": contains, "EXISTS": exists}

// A scanner splits a query into tokens.
type scanner struct {
	input      string
	start, end int // byte offsets of the token
	token      token
	text       string // of the token, without quotes or the keyword before a time
}

// next reads a token. It returns io.EOF at the end of the input and for an unterminated text.
func (s *scanner) next() error {
	rest := strings.TrimLeftFunc(s.input[s.end:], unicode.IsSpace)
	s.start = len(s.input) - len(rest)
	s.end, s.token = s.start, invalid
	first, size := utf8.DecodeRuneInString(rest)
	switch {
	case size == 0:
		return io.EOF
	case isDigit(first):
		s.number()
	case first == '_' || unicode.IsLetter(first) || unicode.IsDigit(first):
		return s.word()
	case first == '\'':
		return s.quoted()
	case strings.ContainsRune("=<>", first):
		s.operator()
	default:
		s.end += size
		return fmt.Errorf("invalid input %c at offset %d", first, s.end)
	}
	return nil
}

// consume reads the characters that belong to the token.
func (s *scanner) consume(belongs func(rune) bool) string {
	rest := s.input[s.end:]
	text := rest[:len(rest)-len(strings.TrimLeftFunc(rest, belongs))]
	s.end += len(text)
	return text
}

// skip reads the character c if it comes next.
func (s *scanner) skip(c byte) bool {
	if s.end < len(s.input) && s.input[s.end] == c {
		s.end++
		return true
	}
	return false
}

func (s *scanner) number() {
	s.consume(isDigit)
	if s.skip('.') {
		s.consume(isDigit)
	}
	s.token, s.text = number, s.input[s.start:s.end]
}

func (s *scanner) operator() {
	s.token = map[byte]token{'=': equal, '<': less, '>': greater}[s.input[s.end]]
	if s.end++; s.token != equal && s.skip('=') {
		s.token++
	}
	s.text = s.input[s.start:s.end]
}

func (s *scanner) quoted() error {
	s.end++
	length := strings.IndexByte(s.input[s.end:], '\'')
	if length < 0 {
		s.end = len(s.input)
		return io.EOF
	}
	s.token, s.text = text, s.input[s.end:s.end+length]
	s.end += length + 1
	return nil
}

// word reads a tag, a keyword, or a time after TIME or DATE and one space.
func (s *scanner) word() error {
	s.text = s.consume(isTag)
	keyword, ok := keywords[s.text]
	switch {
	case ok:
		s.token = keyword
	case s.text == "TIME" && s.skip(' '):
		s.text = s.consume(func(r rune) bool { return isDigit(r) || strings.ContainsRune("-T:+Z", r) })
		return s.checkTime(timestamp, "TIME", time.RFC3339)
	case s.text == "DATE" && s.skip(' '):
		s.text = s.consume(func(r rune) bool { return isDigit(r) || r == '-' })
		return s.checkTime(datestamp, "DATE", time.DateOnly)
	default:
		s.token = tag
	}
	return nil
}

// checkTime checks a time, whose year must be between 1900 and 2999.
func (s *scanner) checkTime(as token, word, layout string) error {
	at, err := time.Parse(layout, s.text)
	if err != nil {
		return fmt.Errorf("invalid %s value: %w", word, err)
	}
	if at.Year() < 1900 || at.Year() > 2999 {
		return fmt.Errorf("%s year %d out of range", as, at.Year())
	}
	s.token = as
	return nil
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

func isTag(r rune) bool {
	return strings.ContainsRune("._-", r) || unicode.IsLetter(r) || unicode.IsDigit(r)
}
