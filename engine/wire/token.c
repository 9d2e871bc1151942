/* See token.h. */
#include "wire/token.h"

const token_form token_forms[32] = {
    {TOKEN_NIL, 0},      {TOKEN_NEVER, 0},    {TOKEN_FALSE, 0},    {TOKEN_TRUE, 0},     /* c0 */
    {TOKEN_BINARY, 1},   {TOKEN_BINARY, 2},   {TOKEN_BINARY, 4},   {TOKEN_EXT, 1},      /* c4 */
    {TOKEN_EXT, 2},      {TOKEN_EXT, 4},      {TOKEN_FLOAT32, 4},  {TOKEN_FLOAT64, 8},  /* c8 */
    {TOKEN_UNSIGNED, 1}, {TOKEN_UNSIGNED, 2}, {TOKEN_UNSIGNED, 4}, {TOKEN_UNSIGNED, 8}, /* cc */
    {TOKEN_SIGNED, 1},   {TOKEN_SIGNED, 2},   {TOKEN_SIGNED, 4},   {TOKEN_SIGNED, 8},   /* d0 */
    {TOKEN_EXT, 0},      {TOKEN_EXT, 0},      {TOKEN_EXT, 0},      {TOKEN_EXT, 0},      /* d4 */
    {TOKEN_EXT, 0},      {TOKEN_STRING, 1},   {TOKEN_STRING, 2},   {TOKEN_STRING, 4},   /* d8 */
    {TOKEN_ARRAY, 2},    {TOKEN_ARRAY, 4},    {TOKEN_MAP, 2},      {TOKEN_MAP, 4},      /* dc */
};
