// refold for opencode: what is sent is folded before it is too long. Storage stays as it is; where refold is
// missing, fails or takes too long, messages go as they are.
import { spawn } from "node:child_process"

const PATIENCE = 15000 // milliseconds

class Refold {
  constructor() {
    this.number = 0
    this.waiting = new Map()
  }

  start() {
    let rest = ""
    const child = spawn("refold", ["plugin", "live"], { stdio: ["pipe", "pipe", "ignore"] })
    const end = () => {
      if (this.child === child) this.child = undefined
      for (const done of this.waiting.values()) done({})
      this.waiting.clear()
    }
    child.on("error", end)
    child.on("exit", end)
    child.stdin.on("error", end)
    child.stdout.setEncoding("utf8")
    child.stdout.on("data", (text) => {
      const lines = (rest + text).split("\n")
      rest = lines.pop()
      for (const answer of lines.map((line) => JSON.parse(line))) {
        this.waiting.get(answer.number)?.(answer)
        this.waiting.delete(answer.number)
      }
    })
    child.unref()
    return child
  }

  ask(question) {
    return new Promise((done) => {
      const number = ++this.number
      const late = setTimeout(() => this.child?.kill(), PATIENCE)
      this.waiting.set(number, (answer) => {
        clearTimeout(late)
        done(answer)
      })
      this.child ??= this.start()
      this.child.stdin.write(JSON.stringify({ number, ...question }) + "\n")
    })
  }
}

export const RefoldPlugin = async ({ client }) => {
  const refold = new Refold()
  const windows = new Map()

  async function windowOf({ providerID, modelID }) {
    const name = `${providerID}/${modelID}`
    if (!windows.has(name)) {
      const { data } = await client.config.providers()
      const provider = data.providers.find((each) => each.id === providerID)
      windows.set(name, provider?.models?.[modelID]?.limit?.context || 0)
    }
    return windows.get(name)
  }

  return {
    "experimental.chat.messages.transform": async (_, output) => {
      try {
        const asked = output.messages.findLast((message) => message.info.role === "user")?.info
        const window = asked?.model ? await windowOf(asked.model) : 0
        if (!window) return
        const answer = await refold.ask({ session: asked.sessionID, messages: output.messages, window })
        if (answer.messages) output.messages.splice(0, output.messages.length, ...answer.messages)
      } catch {}
    },
    "experimental.session.compacting": async ({ sessionID }, output) => {
      try {
        const answer = await refold.ask({ session: sessionID })
        if (answer.record) output.context.push(answer.record)
      } catch {}
    },
    dispose: async () => refold.child?.kill(),
  }
}
