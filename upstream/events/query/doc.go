// Package query reads the queries of CometBFT's event subscriptions and judges
// events by them.
//
// A query is one or more conditions joined by AND. A condition is a tag with EXISTS, or
// with an operator and a value:
//
//	= < <= > >=    a number, TIME with a time, DATE with a date; = takes a 'text' as well
//	CONTAINS       a 'text'
//
// Each condition asks for any value of its tag, so two of them may be met by different
// values. The errors are those of CometBFT 0.38, word for word.
package query
