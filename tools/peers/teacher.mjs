// Teacher forcing against llama.cpp: it continues a few prompts greedily, then
// our forward pass reads the same tokens and is judged position by position.
//
//   node tools/peers/teacher.mjs MODEL.gguf [--score PATH] [--count 200]
//                                [--prompts 4] [--longest 0] [--ref]
//
// A position agrees when our best token is the peer's, or the peer's token is
// within TOLERANCE standard deviations of our best logit: two correct
// implementations round differently, and a near tie may then fall either way.
// Random quantised weights at full scale amplify that: activations are rounded
// to 8 bits again at each matrix, and one rounding that falls the other way
// spreads to all later ones. The peer then differs from itself, with and
// without its flash attention, by 0.013 deviations rms. `mkgguf --scale 0.5`
// keeps layers below the residual stream, as training does.
//
// The peer is npm's node-llama-cpp (test/e2e/package.json) with its prebuilt
// CPU library.
import {createRequire} from "node:module";
import {spawnSync} from "node:child_process";
import {fileURLToPath, pathToFileURL} from "node:url";
import path from "node:path";

export const TOLERANCE = 0.02;
const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.join(here, "../..");

// Throws when the package is not installed; the test then skips.
export async function loadPeer() {
    const require = createRequire(path.join(root, "test/e2e/package.json"));
    const {getLlama} = await import(
        pathToFileURL(require.resolve("node-llama-cpp")));
    return getLlama({gpu: false, build: "never", logLevel: "error",
                     maxThreads: 1});
}

// Fixed ids spread over the vocabulary, the same for each run.
export function makePrompt(vocab, length, seed) {
    const ids = [];
    for (let i = 0; i < length; i++) {
        ids.push((seed * 7919 + i * 104729 + 17) % Math.min(vocab, 2000));
    }
    return ids;
}

function best(logits) {
    let id = -1;
    let value = -Infinity;
    for (const [token, logit] of logits) {
        if (logit > value || (logit === value && token < id)) {
            id = token;
            value = logit;
        }
    }
    return id;
}

async function nextToken(sequence, tokens) {
    const last = tokens.length - 1;
    const wanted = {generateNext: {logits: true}};
    const input = tokens.map((id, i) => i === last ? [id, wanted] : id);
    const results = await sequence.controlledEvaluate(input);
    return best(results[last].next.logits);
}

// The peer's greedy continuation of each prompt: [{ids, promptLength}]. Prompts
// have 5, 8, 11 ... tokens, or with `longest` from 5 evenly up to that.
export async function continuePrompts(llama, modelPath,
                                      {prompts, count, longest}) {
    const lengthOf = (p) => longest
        ? 5 + Math.floor(p * (longest - 5) / Math.max(1, prompts - 1))
        : 5 + 3 * p;
    const model = await llama.loadModel({modelPath, gpuLayers: 0});
    const vocab = model.fileInfo.metadata.tokenizer.ggml.tokens.length;
    const perPrompt = Math.ceil(count / prompts);
    const context = await model.createContext(
        {contextSize: perPrompt + lengthOf(prompts - 1) + 16, sequences: 1,
         threads: 1});
    const sequence = context.getSequence();
    const runs = [];
    for (let p = 0; p < prompts; p++) {
        await sequence.clearHistory();
        const ids = makePrompt(vocab, lengthOf(p), p + 1);
        const promptLength = ids.length;
        let fresh = ids;
        for (let i = 0; i < perPrompt; i++) {
            const id = await nextToken(sequence, fresh);
            ids.push(id);
            fresh = [id];
        }
        runs.push({ids, promptLength});
    }
    await context.dispose();
    await model.dispose();
    return runs;
}

export function scoreRun(score, modelPath, ids, flags = []) {
    const result = spawnSync(score, [modelPath, ...flags],
                             {input: ids.join(" "), encoding: "utf8"});
    if (result.status !== 0) {
        throw new Error(`score: ${result.stderr || result.error}`);
    }
    return result.stdout.trim().split("\n").map((line) => {
        const [position, id, bestLogit, logit, deviation] =
            line.split(" ").map(Number);
        return {position, id, bestLogit, logit, deviation};
    });
}

// {positions, agreed, ties, worst}: `ties` agreed by tolerance only, `worst` is
// the largest gap in standard deviations.
export function judge(runs, score, modelPath, flags = []) {
    const verdict = {positions: 0, agreed: 0, ties: 0, worst: 0};
    for (const {ids, promptLength} of runs) {
        for (const row of scoreRun(score, modelPath, ids, flags)) {
            if (row.position + 1 < promptLength) {
                continue;
            }
            const same = row.id === ids[row.position + 1];
            const gap = (row.bestLogit - row.logit) / row.deviation;
            const tie = !same && gap <= TOLERANCE;
            verdict.positions++;
            verdict.agreed += same || tie ? 1 : 0;
            verdict.ties += tie ? 1 : 0;
            verdict.worst = Math.max(verdict.worst, gap);
        }
    }
    return verdict;
}

function parse(args) {
    const options = {score: path.resolve(root, process.env.BATON_BUILD || "build", "score"), count: 200,
                     prompts: 4, flags: [], models: []};
    for (let i = 0; i < args.length; i++) {
        if (args[i] === "--ref") {
            options.flags.push("--ref");
        } else if (args[i] === "--score") {
            options.score = args[++i];
        } else if (args[i].startsWith("--")) {
            options[args[i].slice(2)] = Number(args[++i]);
        } else {
            options.models.push(args[i]);
        }
    }
    return options;
}

async function main() {
    const options = parse(process.argv.slice(2));
    const llama = await loadPeer();
    let failed = 0;
    for (const modelPath of options.models) {
        const runs = await continuePrompts(llama, modelPath, options);
        const v = judge(runs, options.score, modelPath, options.flags);
        const passed = v.agreed >= v.positions - v.positions / 200;
        failed += passed ? 0 : 1;
        console.log(`${passed ? "ok  " : "FAIL"} ${path.basename(modelPath)}: ` +
                    `${v.agreed} of ${v.positions} agree, ${v.ties} by ` +
                    `tolerance, worst gap ${v.worst.toFixed(4)} deviations`);
    }
    await llama.dispose();
    process.exit(failed === 0 ? 0 : 1);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
    await main();
}
