// What LiteLLM's Prisma client believes to be Prisma's native query engine.
//
// The native engine is a download that no package registry offers. But npm's @prisma/client holds
// the same engine as WebAssembly, and node-postgres can be its driver. Two things stand between:
// the Python client sends GraphQL text while the WebAssembly build takes only Prisma's newer JSON
// requests, and the answers are spelled differently. This file translates both ways over HTTP.
//
// Started by the client as: engine.js -p PORT --enable-metrics --enable-raw-queries
'use strict'

const fs = require('node:fs')
const http = require('node:http')
const { parse } = require('./graphql.js')

const VERSION = '393aa359c9ad4a4bb28630fb5613f9c281cde053' // of Prisma 5.17.0

// ------------------------------------------------------------------- GraphQL to JSON requests

const WRITES = '(?:create|update|delete|upsert)(?:One|Many)'
const ACTION = `queryRaw|executeRaw|aggregate|groupBy|find(?:Unique|First|Many)|${WRITES}`
const OPERATION = new RegExp(`^(${ACTION})(\\w*?)(OrThrow)?$`)
const HOLD_VALUES = new Set(['data', 'where', 'create', 'update'])
const PLAIN_IN_JSON_FILTERS = /^(path|mode|string_\w+)$/

/** Knows the type of every field, from the schema: in GraphQL a Json value looks like a string. */
class Schema {
  constructor(text) {
    this.models = {}
    let fields = {}
    for (const line of text.split('\n')) {
      const [first, second] = line.trim().split(/\s+/)
      if (first === 'model') fields = this.models[second] = {}
      else if (second && !/^(\/\/|@@)/.test(first)) fields[first] = second.replace(/\W.*/, '')
    }
  }

  request(text) {
    const root = parse(text)
    const found = OPERATION.exec(root.name)
    if (!found) throw new Error(`operation not known: ${root.name}`)
    const [, action, model, orThrow = ''] = found
    const query = this.query(root, model)
    return model ? { modelName: model, action: action + orThrow, query } : { action, query }
  }

  query({ given, fields }, model) {
    const args = Object.entries(given).map(([name, value]) => [
      name,
      HOLD_VALUES.has(name) ? this.typed(value, model) : value,
    ])
    const selected = fields.map((field) => {
      const plain = !field.fields.length && !Object.keys(field.given).length
      return [field.name, plain || this.query(field, this.models[model]?.[field.name])]
    })
    return { arguments: Object.fromEntries(args), selection: Object.fromEntries(selected) }
  }

  /** Marks the Json values in what is given for a model or for a Json field. */
  typed(value, type) {
    if (type === 'Json' && typeof value === 'string') return { $type: 'Json', value }
    if (Array.isArray(value)) return value.map((item) => this.typed(item, type))
    if (value === null || typeof value !== 'object') return value
    const marked = ([name, inner]) => [name, this.typed(inner, this.below(type, name))]
    return Object.fromEntries(Object.entries(value).map(marked))
  }

  /** Names the type of what stands under a name: a field's, or the same for AND, set, connect... */
  below(type, name) {
    if (type === 'Json') return PLAIN_IN_JSON_FILTERS.test(name) ? 'String' : 'Json'
    return this.models[type]?.[name] ?? type
  }
}

// -------------------------------------------------------------------------- answers, as GraphQL

function plain(value) {
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.map(plain)
  if ('$type' in value) return plain(value.value)
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, plain(inner)]))
}

function rawCell(type, value) {
  if (value === null) return { prisma__type: 'null', prisma__value: null }
  const element = /^(.+)-array$/.exec(type)?.[1]
  if (!element) return { prisma__type: type, prisma__value: value }
  return { prisma__type: 'array', prisma__value: value.map((item) => rawCell(element, item)) }
}

function rawRows(table) {
  const cell = (value, at) => [table.columns[at], rawCell(table.types[at], value)]
  return table.rows.map((row) => Object.fromEntries(row.map(cell)))
}

/** The client calls every result `result`; the engine names it after the operation. */
function answer(response) {
  if (!response.data) return response
  const [operation, result] = Object.entries(response.data)[0]
  return { data: { result: operation === 'queryRaw' ? rawRows(result) : plain(result) } }
}

function failure(message, error = {}) {
  return { errors: [{ error: message, user_facing_error: { is_panic: false, message, ...error } }] }
}

// ----------------------------------------------------------------------------------- the engine

/** PostgreSQL's catalogue types `name` and `name[]`, which the driver does not know, are text. */
function acceptCatalogueTypes() {
  const { prototype } = require('pg/lib/result')
  const original = prototype.addFields
  const text = new Map([[19, 25], [1003, 1009]])
  prototype.addFields = function addFields(columns) {
    for (const column of columns) {
      column.dataTypeID = text.get(column.dataTypeID) ?? column.dataTypeID
    }
    return original.call(this, columns)
  }
}

function databaseUrl() {
  const overridden = process.env.OVERWRITE_DATASOURCES
  return new URL(overridden ? JSON.parse(overridden)[0].url : process.env.DATABASE_URL)
}

class Engine {
  constructor() {
    const { Pool } = require('pg')
    const { PrismaPg } = require('@prisma/adapter-pg')
    const { bindAdapter } = require('@prisma/driver-adapter-utils')
    const schema = fs.readFileSync(process.env.PRISMA_DML_PATH, { encoding: 'utf8' })
    this.url = databaseUrl()
    this.schema = new Schema(schema)
    const max = Number(this.url.searchParams.get('connection_limit') ?? 10)
    const pool = new Pool({ connectionString: this.url.href, max })
    pool.on('error', (error) => console.error('query engine: idle connection lost:', error.message))
    this.driver = bindAdapter(new PrismaPg(pool))
    this.core = new (Engine.load().QueryEngine)(
      { datamodel: schema, configDir: '.', env: process.env, ignoreEnvVarErrors: true,
        datasourceOverrides: {}, logLevel: 'error', logQueries: false, engineProtocol: 'json' },
      () => {},
      this.driver,
    )
  }

  static load() {
    const name = '@prisma/client/runtime/query_engine_bg.postgresql'
    const glue = require(`${name}.js`)
    const code = new WebAssembly.Module(fs.readFileSync(require.resolve(`${name}.wasm`)))
    const { exports } = new WebAssembly.Instance(code, { './query_engine_bg.js': glue })
    glue.__wbg_set_wasm(exports)
    return glue
  }

  /** Replaces an error of the driver, of which the core knows only a number, by what it says. */
  explained(response) {
    for (const { user_facing_error: error } of response.errors ?? []) {
      if (error?.error_code !== 'P2036') continue
      const cause = this.driver.errorRegistry.consumeError(error.meta.id)?.error
      error.message = String(cause?.message || cause?.code || cause)
      if (!/^E[A-Z]+$/.test(cause?.code) && !/^Connection terminated/.test(error.message)) continue
      const at = `\`${this.url.hostname}:${this.url.port}\``
      error.message = `Can't reach database server at ${at}: ${error.message}`
      error.error_code = 'P1001'
    }
    return response
  }

  async send(request, transaction) {
    const text = await this.core.query(JSON.stringify(request), '{}', transaction)
    return this.explained(JSON.parse(text))
  }

  async query(body, transaction) {
    if (!body.batch) return answer(await this.send(this.schema.request(body.query), transaction))
    const batch = body.batch.map((item) => this.schema.request(item.query))
    const request = { batch, transaction: body.transaction ? {} : undefined }
    const response = await this.send(request, transaction)
    if (response.batchResult) response.batchResult = response.batchResult.map(answer)
    return response
  }

  async transaction(verb, id, body) {
    const calls = {
      start: () => this.core.startTransaction(body, '{}'),
      commit: () => this.core.commitTransaction(id, '{}'),
      rollback: () => this.core.rollbackTransaction(id, '{}'),
    }
    const response = JSON.parse(await calls[verb]())
    // Here the core reports trouble bare, not in a list of errors.
    return response.error_code ? this.explained(failure(response.message, response)) : response
  }
}

// ------------------------------------------------------------------------------------- the server

async function respond(engine, request) {
  request.setEncoding('utf8')
  let body = ''
  for await (const piece of request) body += piece
  const [, first, id, verb] = request.url.split(/[/?]/)
  if (first === 'status') return { status: 'ok' }
  if (first === 'metrics') return { counters: [], gauges: [], histograms: [] }
  if (first === 'transaction') return engine.transaction(verb ?? id, id, body)
  return engine.query(JSON.parse(body), request.headers['x-transaction-id'])
}

async function main(port) {
  process.title = 'query-engine (llmao)'
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(0))
  const starter = process.ppid
  setInterval(() => process.ppid === starter || process.exit(0), 500) // it was killed: go as well
  acceptCatalogueTypes()
  const engine = new Engine()
  await engine.core.connect('{}')
  const server = http.createServer((request, response) => {
    respond(engine, request)
      .catch((error) => failure(String(error?.message ?? error)))
      .then((result) => {
        response.setHeader('content-type', 'application/json')
        response.end(JSON.stringify(result))
      })
  })
  server.keepAliveTimeout = 0 // the client keeps connections and is surprised when they close
  server.listen(port, '127.0.0.1')
}

const words = process.argv.slice(2)
if (words[0] === '--version') {
  console.log(`query-engine ${VERSION}`)
} else {
  main(Number(words[words.indexOf('-p') + 1])).catch((error) => {
    console.error('query engine:', error)
    process.exit(1)
  })
}
