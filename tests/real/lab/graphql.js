// Reads the GraphQL that prisma-client-py writes: one operation with one field, no variables, no
// fragments, strings written as JSON writes them.
'use strict'

const CONSTANTS = new Map([['true', true], ['false', false], ['null', null]])

class Reader {
  constructor(text) {
    this.text = text
    this.at = 0
  }

  /** Moves past blanks and commas, which GraphQL takes for blanks, and returns what follows. */
  next() {
    while (' \n\r\t,'.includes(this.text[this.at] ?? '.')) this.at++
    return this.text[this.at]
  }

  /** Moves past the given character if it is next; tells whether it was. */
  skip(character) {
    const met = this.next() === character
    if (met) this.at++
    return met
  }

  word() {
    this.next()
    const pattern = /[\w.+-]+/y
    pattern.lastIndex = this.at
    const found = pattern.exec(this.text)
    if (!found) throw new Error(`GraphQL not understood: ${this.text.slice(this.at, this.at + 40)}`)
    this.at = pattern.lastIndex
    return found[0]
  }

  string() {
    const start = this.at++
    while (this.text[this.at] !== '"') {
      if (this.at >= this.text.length) throw new Error('GraphQL ends within a string')
      this.at += this.text[this.at] === '\\' ? 2 : 1
    }
    return JSON.parse(this.text.slice(start, ++this.at))
  }

  value() {
    const first = this.next()
    if (first === '"') return this.string()
    if (this.skip('{')) return this.pairs('}')
    if (this.skip('[')) {
      const items = []
      while (!this.skip(']')) items.push(this.value())
      return items
    }
    return scalar(this.word())
  }

  /** Reads `name: value` pairs up to the closing bracket. */
  pairs(closing) {
    const result = {}
    while (!this.skip(closing)) {
      const name = this.word()
      this.skip(':')
      result[name] = this.value()
    }
    return result
  }

  /** Reads a field: its name (an alias is dropped), arguments and selected fields. */
  field() {
    let name = this.word()
    if (this.skip(':')) name = this.word()
    const given = this.skip('(') ? this.pairs(')') : {}
    const fields = this.next() === '{' ? this.selection() : []
    return { name, given, fields }
  }

  selection() {
    const fields = []
    this.skip('{')
    while (!this.skip('}')) fields.push(this.field())
    return fields
  }

  /** Reads a whole operation and returns its only field. */
  operation() {
    this.word() // query or mutation
    return this.selection()[0]
  }
}

function scalar(word) {
  if (CONSTANTS.has(word)) return CONSTANTS.get(word)
  if (!/^-?\d/.test(word)) return word // an enum's member
  const number = Number(word)
  const exact = !Number.isInteger(number) || Number.isSafeInteger(number)
  return exact ? number : { $type: 'BigInt', value: word }
}

module.exports = { parse: (text) => new Reader(text).operation() }
